. ~/.gpu-site/env.sh; cd .snap; export PYTHONPATH=$PWD:$PWD/benchmarks:$PYTHONPATH SCIPY_ARRAY_API=1 GPUS=1; mkdir -p $OUT/b
timeout 60 python3 facet_gpu.py > $OUT/b/facet.txt 2>&1

