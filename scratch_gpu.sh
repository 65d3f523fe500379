. ~/.gpu-site/env.sh; cd .snap; export PYTHONPATH=$PWD:$PWD/benchmarks:$PYTHONPATH SCIPY_ARRAY_API=1 GPUS=1; mkdir -p $OUT/b
timeout 60 python3 benchmarks/adapters.py --device cuda --scenario face --repeats 30 --json $OUT/b/face.json > $OUT/b/log.txt 2>&1; tail -14 $OUT/b/log.txt
timeout 60 python3 facet_gpu.py > $OUT/b/facet.txt 2>&1
timeout 100 python3 -m pytest -q -p no:cacheprovider --import-mode=importlib -m gpu tests/test_labels.py tests/adapters/test_clusters.py tests/adapters/test_gpu.py -k "labels or cluster or kmeans or KMeans" 2>&1 | tail -15
