"""Clusters on this machine, and the client that searches work with."""

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from distributed import Client, performance_report

from gpuml_dask import cluster as clusters
from gpuml_dask.client import the_client
from gpuml_dask.cluster import local_client, make_cluster
from gpuml_dask.errors import ClusterError

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("spawned")


def children():
    """Processes started by this one that still run; multiprocessing's tracker stays by design."""
    return {
        child.pid
        for child in psutil.Process().children(recursive=True)
        if "resource_tracker" not in " ".join(child.cmdline())
    }


def assert_gone(pids, seconds=10):
    deadline = time.monotonic() + seconds
    while left := [pid for pid in pids if _runs(pid)]:
        assert time.monotonic() < deadline, f"Processes {left} still run."
        time.sleep(0.05)


def shared_memory_of(pids):
    """Inodes of files in shared memory that processes have mapped, semaphores among them."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    return {int(line.split()[4]) for line in lines if "/dev/shm/" in line}


def _runs(pid):
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


# ---------------------------------------------------------------- starting and closing


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="reads /proc")
def test_closing_the_client_closes_its_cluster(tmp_path):
    before = children()
    shared = shared_memory_of([os.getpid()])
    with local_client(2, device="cpu", local_directory=str(tmp_path)) as client:
        started = children() - before
        assert len(client.scheduler_info()["workers"]) == 2
        assert len(started) == 2
        shared = shared_memory_of([os.getpid(), *started]) - shared
        assert shared
        assert client.submit(sum, [1, 2]).result(timeout=20) == 3
        assert client.cluster.status.name == "running"
    assert client.status == "closed"
    assert client.cluster.status.name == "closed"
    assert_gone(started)
    assert [path for path in tmp_path.rglob("*") if path.suffix != ".lock" and path.is_file()] == []
    gc.collect()
    assert [file.name for file in os.scandir("/dev/shm") if file.inode() in shared] == []
    client.close()  # again, to no effect


def test_workers_that_stop_slowly_are_a_warning(monkeypatch):
    client = local_client(0, device="cpu")
    close = client.cluster.close

    def late(timeout):
        close(timeout=timeout)
        raise TimeoutError

    monkeypatch.setattr(client.cluster, "close", late)
    with pytest.warns(RuntimeWarning, match="did not stop in 20 s"):
        client.close()


def test_a_cluster_has_as_many_threads_as_cores():
    threads = clusters._sizes_on_cpu(None, None)
    assert threads["n_workers"] * threads["threads_per_worker"] <= max(1, clusters.cpu_count())


@pytest.mark.parametrize(
    ("given", "expected"),
    [((None, None), (8, 6)), ((4, None), (4, 12)), ((None, 1), (48, 1)), ((3, 2), (3, 2))],
)
def test_cores_are_shared_out(monkeypatch, given, expected):
    monkeypatch.setattr(clusters, "cpu_count", lambda: 48)
    assert tuple(clusters._sizes_on_cpu(*given).values()) == expected


@pytest.mark.exhaustive
def test_workers_declare_their_kind_and_share_out_the_cores(monkeypatch):
    for name in clusters.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(clusters, "cpu_count", lambda: 6)
    with local_client(1, threads_per_worker=2, device="cpu", dashboard_address=None) as client:
        (worker,) = client.scheduler_info()["workers"].values()
        assert worker["resources"] == {"CPU": 2}
        assert worker["nthreads"] == 2
        (environment,) = client.run(lambda: dict(os.environ)).values()
    assert {environment[name] for name in clusters.THREAD_VARIABLES} == {"3"}
    assert not set(clusters.THREAD_VARIABLES) & set(os.environ)


def test_threads_that_the_user_has_set_stay(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    with clusters._environment_of_workers(2):
        key = "distributed.nanny.pre-spawn-environ"
        assert clusters.dask.config.get(key)["MKL_NUM_THREADS"] == 2
    assert os.environ["OMP_NUM_THREADS"] == "5"


def test_the_scheduler_listens_on_this_machine_only():
    before = _listening()
    with make_cluster(0, device="cpu") as cluster:
        assert cluster.scheduler_address.startswith("tcp://127.0.0.1:")
        assert "127.0.0.1" in cluster.dashboard_link
        assert {address.ip for address in _listening() - before} <= {"127.0.0.1", "::1"}


@pytest.mark.exhaustive
def test_the_dashboard_has_pages_and_reports(tmp_path):
    with make_cluster(1, device="cpu") as cluster, Client(cluster) as client:
        with urllib.request.urlopen(client.dashboard_link) as page:
            assert "needs bokeh" not in (text := page.read().decode())
            assert "bokeh" in text
        with performance_report(filename=str(tmp_path / "report.html")):
            assert client.submit(sum, [1, 2]).result() == 3
    assert "bokeh" in (tmp_path / "report.html").read_text()


def test_without_a_dashboard_its_usual_port_is_left_alone():
    before = _listening()
    # Dask warns, which is an error here, where it wants the port and another process has it.
    with make_cluster(0, device="cpu", dashboard_address=None):
        opened = _listening() - before
    assert {address.ip for address in opened} <= {"127.0.0.1", "::1"}
    assert 8787 not in {address.port for address in opened}


def _listening():
    """Addresses that this process listens at; the cluster of other tests may be among them."""
    connections = psutil.Process().net_connections()
    return {each.laddr for each in connections if each.status == "LISTEN"}


# ---------------------------------------------------------------- which devices


@pytest.mark.parametrize(
    ("visible", "there", "seen"),
    [(None, 8, 8), ("0,3", 8, 2), ("", 8, 0), ("-1", 8, 0), ("0,-1,1", 8, 1), ("0", 0, 0)],
)
def test_gpus_that_this_process_may_see(monkeypatch, visible, there, seen):
    monkeypatch.setattr(clusters.nvml, "device_get_count", lambda: there)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert clusters._n_gpus() == seen


def test_a_gpu_cluster_where_there_is_no_gpu(monkeypatch):
    monkeypatch.setattr(clusters, "_n_gpus", lambda: 0)
    with pytest.raises(RuntimeError, match="this process sees none"):
        make_cluster(device="cuda")
    with pytest.raises(ValueError, match="device must be one of"):
        make_cluster(device="gpu")


@pytest.mark.parametrize(
    ("spill", "limit"), [(True, "default"), (False, None), (0.5, 0.5), ("9GB", "9GB")]
)
def test_options_of_a_gpu_cluster(monkeypatch, spill, limit):
    monkeypatch.setitem(sys.modules, "dask_cuda", type(sys)("dask_cuda"))
    sys.modules["dask_cuda"].LocalCUDACluster = object
    monkeypatch.setattr(clusters, "_n_gpus", lambda: 3)
    options = {"protocol": None}
    made, sizes = clusters._gpu_cluster(None, None, options, "30GB", spill)
    assert made is object
    assert sizes == {"n_workers": 3, "threads_per_worker": 1}
    assert options["resources"] == {"GPU": 1}
    assert options["device_memory_limit"] == limit
    assert options["rmm_pool_size"] == "30GB"
    assert options["rmm_allocator_external_lib_list"] == ["cupy"]
    assert "rmm_managed_memory" not in options


def test_the_pool_of_workers_fits_beside_other_programs(monkeypatch):
    free = {"1": 9_000, "GPU-5e1f": 6_000, "0": 10}
    monkeypatch.setitem(sys.modules, "dask_cuda", type(sys)("dask_cuda"))
    sys.modules["dask_cuda"].LocalCUDACluster = object
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,GPU-5e1f")
    monkeypatch.setattr(clusters.nvml, "device_get_count", lambda: 8)
    monkeypatch.setattr(clusters, "_free_memory", free.get)
    options = {"protocol": None}
    clusters._gpu_cluster(None, None, options, "auto", True)
    assert options["rmm_pool_size"] == 3_000


@pytest.mark.gpu
@pytest.mark.exhaustive
def test_a_worker_for_each_gpu():
    pytest.importorskip("dask_cuda")
    if not clusters._n_gpus():
        pytest.skip("no GPU")
    before = children()
    with local_client(device="cuda") as client:
        workers = client.scheduler_info()["workers"].values()
        assert [worker["resources"] for worker in workers] == [{"GPU": 1}] * clusters._n_gpus()
        total = client.submit(_sum_on_gpu, 1000).result(timeout=60)
        assert total == 499_500
    assert_gone(children() - before)


def _sum_on_gpu(n):
    import cupy
    import rmm

    values = cupy.arange(n)
    assert "rmm" in cupy.cuda.get_allocator().__module__
    assert isinstance(rmm.mr.get_current_device_resource(), rmm.mr.PoolMemoryResource)
    return int(values.sum())


@pytest.mark.exhaustive
def test_dask_looks_late_whether_a_worker_is_back_but_when_the_user_says():
    key = "distributed.deploy.lost-worker-timeout"
    code = (
        f"import dask, gpuml_dask as g; g.make_cluster(0).close(); print(dask.config.get({key!r}))"
    )
    own = {"DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "7s"}
    for variables, expected in (({}, "60s"), (own, "7s")):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        out = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert out.stdout.split() == [expected]


@pytest.mark.exhaustive
def test_a_worker_that_was_retired_is_replaced_when_the_cluster_is_scaled():
    with (
        clusters.dask.config.set({"distributed.deploy.lost-worker-timeout": "200ms"}),
        local_client(2, device="cpu", dashboard_address=None) as client,
    ):
        first, second = client.nthreads()
        client.retire_workers([first])
        deadline = time.monotonic() + 60
        while len(client.nthreads()) < 2:
            assert time.monotonic() < deadline
            client.cluster.scale(2)
            time.sleep(0.1)
        assert second in client.nthreads()


@pytest.mark.exhaustive
def test_a_worker_that_dies_comes_back():
    with local_client(1, device="cpu", dashboard_address=None) as client:
        (pid,) = client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
        assert client.submit(os.getpid, pure=False).result(timeout=60) != pid


@pytest.mark.parametrize("protocol", ["ucx", "ucxx"])
def test_a_protocol_without_its_package_is_named(monkeypatch, protocol):
    monkeypatch.setattr(clusters.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"distributed-ucxx.*gpuml\[dask-cu13\]"):
        make_cluster(1, protocol=protocol, device="cpu")


def test_a_scheduler_that_cannot_start_is_not_blamed_on_the_script(monkeypatch):
    monkeypatch.setattr(clusters, "_runs_a_script", lambda: True)
    with pytest.raises(RuntimeError, match="'nosuch' is not a valid network interface"):
        make_cluster(1, interface="nosuch", device="cpu")


# ---------------------------------------------------------------- programs that end


@pytest.fixture
def program(tmp_path, interruptible):
    """Starts a script in a process group of its own, of which nothing outlives the test.

    `interruptible`, because a process inherits that Ctrl-C is ignored. So do tests that a shell has
    started in the background, and then the script would sleep on.
    """
    with ExitStack() as stack:

        def start(text):
            path = tmp_path / "script.py"
            path.write_text(textwrap.dedent(text))
            script = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, str(path)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT)},
                )
            )
            stack.callback(_kill_group, script)
            return script

        yield start


def _kill_group(script):
    if script.poll() is None:
        os.killpg(script.pid, signal.SIGKILL)


STARTS = """
    import os, time
    from gpuml_dask.cluster import local_client

    if __name__ == "__main__":
        client = local_client(2, threads_per_worker=1, device="cpu", dashboard_address=None)
        kept = client.map(abs, range(4))
        client.gather(kept)
        print(*client.run(os.getpid).values(), flush=True)
"""


# Dask's workers report a heartbeat that is under way when the scheduler closes, which is rare.
HEARTBEAT_CUT_SHORT = re.compile(
    r"^[\d-]+ [\d:,]+ - distributed\.worker - ERROR - Failed to communicate with scheduler during "
    r"heartbeat\.\nTraceback.*?^distributed\.comm\.core\.CommClosedError: [^\n]*\n",
    re.MULTILINE | re.DOTALL,
)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "end", ["pass", "raise ValueError('wrong')", "time.sleep(60)"], ids=["end", "error", "ctrl-c"]
)
def test_nothing_is_left_when_a_program_ends(program, end):
    script = program(f"{STARTS}        {end}\n")
    workers = [int(pid) for pid in script.stdout.readline().split()]
    assert len(workers) == 2
    if "sleep" in end:
        os.killpg(script.pid, signal.SIGINT)  # as a terminal does
    _, errors = script.communicate(timeout=30)
    assert script.returncode == (0 if end == "pass" else -signal.SIGINT if "sleep" in end else 1)
    errors = HEARTBEAT_CUT_SHORT.sub("", errors)
    assert "still alive" not in errors  # workers were stopped, not killed
    assert "lose" not in errors  # and nobody is told of what they had
    if end == "pass":
        assert errors == ""
    assert_gone(workers)


@pytest.mark.exhaustive
def test_workers_end_with_a_program_that_is_killed(program):
    script = program(f"{STARTS}        time.sleep(60)\n")
    workers = [int(pid) for pid in script.stdout.readline().split()]
    script.kill()
    script.communicate(timeout=30)
    assert_gone(workers)


@pytest.mark.exhaustive
def test_a_script_without_a_guard_is_told_so(program):
    script = program(
        """
        from gpuml_dask.cluster import local_client

        client = local_client(2, device="cpu", dashboard_address=None)
        """
    )
    _, errors = script.communicate(timeout=60)
    assert script.returncode == 1
    assert "if __name__ == '__main__':" in errors.strip().splitlines()[-2]
    assert "The workers could not be started" in errors


# ---------------------------------------------------------------- the client


def test_a_client_is_taken_as_it_is(client):
    with the_client(client) as found:
        assert found is client
    assert client.status == "running"
    with the_client() as found:
        assert found is client


@pytest.mark.parametrize("what", ["cluster", "address"])
def test_a_client_is_opened_and_closed(client, cluster4, what):
    with the_client(cluster4 if what == "cluster" else cluster4.scheduler_address) as found:
        assert found is not client
        assert found.submit(sum, [2, 3]).result(timeout=20) == 5
    assert found.status == "closed"
    assert Client.current() is client


def test_the_client_of_a_task(client):
    def inside():
        with the_client() as found:
            return found.scheduler.address

    assert client.submit(inside).result(timeout=20) == client.scheduler.address


def test_an_asynchronous_client(cluster4):
    def work(client):
        with the_client(client) as found:
            assert not found.asynchronous
            return found.submit(sum, [3, 4]).result(timeout=20)

    async def main():
        async with Client(cluster4.scheduler_address, asynchronous=True) as client:
            with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"), the_client(client):
                pass
            assert await asyncio.to_thread(work, client) == 7
            assert client.status == "running"

    asyncio.run(main())


def test_without_a_client():
    with pytest.raises(ClusterError, match="There is no Dask client"), the_client():
        pass


def test_what_is_no_client(cluster4):
    with pytest.raises(TypeError, match="got int"), the_client(3):
        pass
    with Client(cluster4) as closed:
        pass
    with pytest.raises(ClusterError, match="is closed"), the_client(closed):
        pass


def test_no_scheduler_answers():
    with (
        clusters.dask.config.set({"distributed.comm.timeouts.connect": "200ms"}),
        pytest.raises(ClusterError, match="No scheduler answers at tcp://127.0.0.1:9"),
        the_client("tcp://127.0.0.1:9"),
    ):
        pass


def test_local_client_is_not_asynchronous():
    with pytest.raises(ValueError, match="await make_cluster"):
        local_client(asynchronous=True)


@pytest.mark.exhaustive
def test_a_cluster_in_an_event_loop():
    async def main():
        async with (
            make_cluster(1, device="cpu", dashboard_address=None, asynchronous=True) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            return await client.submit(sum, [4, 5])

    assert asyncio.run(main()) == 9
