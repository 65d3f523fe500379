. ~/.gpu-site/env.sh; cd .snap; export PYTHONPATH=$PWD:$PWD/benchmarks:$PYTHONPATH SCIPY_ARRAY_API=1 GPUS=1
timeout 60 python3 kmprof.py 2>&1 | tail -50
