#!/usr/bin/env python3
"""Checks launch/kubernetes/mpijob.yaml without Kubernetes.

    mpijob.py fields                        checks that the MPI Operator and Kubernetes know all fields
    mpijob.py run EVENKEEL                  runs the launcher and workers on simulated nodes, as the operator would start them
    mpijob.py --inside FOLDER EVENKEEL      the part of `run` inside the simulation

Each worker and the launcher run on a simulated node instead of a container, with the files of the image and the mounts of the
job's volumes. This script supplies what the operator adds: keys, the list of hosts, variables. Exits with 77 and the reason if
nodes cannot be simulated.
"""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "launch" / "kubernetes"
SKIPPED = 77
HOME = "/home/evenkeel"

# Fields of kubeflow.org/v2beta1 and of the parts of Kubernetes' v1 that the job uses. None matches any value.
CONTAINER = {"name": None, "image": None, "imagePullPolicy": None, "command": [None], "args": [None],
             "env": [{"name": None, "value": None}], "resources": {"requests": None, "limits": None},
             "securityContext": {"runAsUser": None, "runAsGroup": None},
             "readinessProbe": {"tcpSocket": {"port": None}, "initialDelaySeconds": None},
             "volumeMounts": [{"name": None, "mountPath": None, "readOnly": None}]}
VOLUME = {"name": None, "configMap": {"name": None}, "persistentVolumeClaim": {"claimName": None},
          "emptyDir": {"medium": None, "sizeLimit": None}}
TERM = {"topologyKey": None, "labelSelector": {"matchLabels": None}}
POD = {"containers": [CONTAINER], "volumes": [VOLUME], "securityContext": {"fsGroup": None}, "nodeSelector": None,
       "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}
REPLICA = {"replicas": None, "restartPolicy": None, "template": {"metadata": {"labels": None}, "spec": POD}}
MPI_JOB = {"apiVersion": None, "kind": None, "metadata": {"name": None},
           "spec": {"slotsPerWorker": None, "runLauncherAsWorker": None, "sshAuthMountPath": None,
                    "launcherCreationPolicy": None, "mpiImplementation": None,
                    "runPolicy": {"cleanPodPolicy": None, "ttlSecondsAfterFinished": None,
                                  "activeDeadlineSeconds": None, "backoffLimit": None, "suspend": None},
                    "mpiReplicaSpecs": {"Launcher": REPLICA, "Worker": REPLICA}}}
CONFIG_MAP = {"apiVersion": None, "kind": None, "metadata": {"name": None}, "data": None}


def documents() -> tuple[dict, dict]:
    """Returns the configuration and the job."""
    try:
        import yaml
    except ImportError:
        print("mpijob: skipped: this Python has no yaml; launch/install-packages.sh --tests installs python3-yaml")
        sys.exit(SKIPPED)
    config, job = yaml.safe_load_all((FOLDER / "mpijob.yaml").read_text(encoding="utf-8"))
    return config, job


def unknown_fields(value: object, known: object, place: str) -> list[str]:
    if known is None:
        return []
    if isinstance(known, list):
        if not isinstance(value, list):
            return [f"{place}: must be a list"]
        return [text for i, item in enumerate(value) for text in unknown_fields(item, known[0], f"{place}[{i}]")]
    if not isinstance(value, dict):
        return [f"{place}: must be an object"]
    found = [f"{place}.{name}: nobody knows it" for name in value if name not in known]
    return found + [text for name in value if name in known
                    for text in unknown_fields(value[name], known[name], f"{place}.{name}")]


def check_fields() -> None:
    config, job = documents()
    wrong = unknown_fields(config, CONFIG_MAP, "ConfigMap") + unknown_fields(job, MPI_JOB, "MPIJob")
    assert not wrong, "\n".join(wrong)
    assert (config["apiVersion"], config["kind"]) == ("v1", "ConfigMap")
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    spec = job["spec"]
    assert spec["launcherCreationPolicy"] in ("AtStartup", "WaitForWorkersReady")
    assert spec["runPolicy"]["cleanPodPolicy"] in ("All", "Running", "None")
    for replica in spec["mpiReplicaSpecs"].values():
        assert replica["restartPolicy"] in ("Never", "OnFailure", "Always", "ExitCode")
        pod = replica["template"]["spec"]
        assert len(pod["containers"]) == 1, "the operator starts the first one"
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        mounted = {mount["name"] for mount in pod["containers"][0].get("volumeMounts", [])}
        assert volumes == mounted, f"volumes {volumes}, mounted {mounted}"
        assert pod["containers"][0]["securityContext"]["runAsUser"] == 1000, "evenkeel, by the Dockerfile"
    worker = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}} in worker["volumes"]
    assert config["metadata"]["name"] in [v["configMap"]["name"] for v in worker["volumes"] if "configMap" in v]
    port = next(line.split()[1] for line in (FOLDER / "sshd_config").read_text().splitlines() if line.startswith("Port"))
    assert worker["containers"][0]["readinessProbe"]["tcpSocket"]["port"] == int(port)
    assert f"Port {port}" in (FOLDER / "ssh_config").read_text()
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for line in ("COPY launch/kubernetes/ssh_config /etc/ssh/ssh_config.d/evenkeel.conf",
                 f"COPY launch/kubernetes/sshd_config {HOME}/.sshd_config", "--uid 1000 evenkeel",
                 "openssh-client openssh-server"):
        assert line in image, f"the Dockerfile lacks: {line}"
    assert spec["sshAuthMountPath"] == f"{HOME}/.ssh"


def run(evenkeel: str) -> int:
    if not pathlib.Path("/usr/sbin/sshd").exists():
        print("mpijob: skipped: /usr/sbin/sshd is not installed; launch/install-packages.sh --tests installs it")
        return SKIPPED
    if os.geteuid() != 0:
        print("mpijob: skipped: it takes root to give the simulated nodes the image's files and user")
        return SKIPPED
    _, job = documents()
    # One more node, for the launcher.
    nodes = job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] + 1
    with tempfile.TemporaryDirectory(prefix="evenkeel-mpijob-") as folder:
        os.chmod(folder, 0o755)
        command = [ROOT / "launch" / "simulate-nodes.sh", str(nodes), "1", "--once", "--", sys.executable, __file__,
                   "--inside", folder, evenkeel]
        return subprocess.run(command, check=False).returncode


def image(folder: pathlib.Path, evenkeel: str) -> None:
    """Mounts the content of the image over the files of this machine. Only processes of this simulation see it."""
    for place in ("/home", "/usr/local/bin", "/etc/ssh/ssh_config.d"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "evenkeel", place], check=True)
    os.symlink(evenkeel, "/usr/local/bin/evenkeel")
    shutil.copy(FOLDER / "ssh_config", "/etc/ssh/ssh_config.d/evenkeel.conf")
    for name, line in (("passwd", f"evenkeel:x:1000:1000::{HOME}:/bin/bash\n"), ("group", "evenkeel:x:1000:\n")):
        there = pathlib.Path("/etc", name)
        mine = folder / name
        others = [text for text in there.read_text().splitlines(True) if text.split(":")[2] != "1000"]
        mine.write_text(line + "".join(others), encoding="utf-8")
        subprocess.run(["mount", "--bind", mine, there], check=True)
    os.mkdir(HOME)
    shutil.copy(FOLDER / "sshd_config", f"{HOME}/.sshd_config")
    assert pwd.getpwuid(1000).pw_name == "evenkeel"


def volumes(config: dict, slots: int, workers: int) -> None:
    """Creates what the operator and Kubernetes mount, owned by root as there."""
    keys = pathlib.Path(HOME, ".ssh")
    keys.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-m", "PEM", "-N", "", "-f", keys / "id_rsa"], check=True)
    shutil.copy(keys / "id_rsa.pub", keys / "authorized_keys")
    for file in keys.iterdir():
        file.chmod(0o644)
    job = pathlib.Path(HOME, "job")
    job.mkdir()
    for name, text in config["data"].items():
        (job / name).write_text(text, encoding="utf-8")
    pathlib.Path(HOME, "output").mkdir()
    os.chown(f"{HOME}/output", 1000, 1000)
    hosts = "".join(f"n{i + 2} slots={slots}\n" for i in range(workers))
    pathlib.Path("/run/evenkeel/hostfile").write_text(hosts, encoding="utf-8")


def inside(folder: pathlib.Path, evenkeel: str) -> int:
    config, job = documents()
    slots = job["spec"]["slotsPerWorker"]
    launcher, worker = (job["spec"]["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
    image(folder, evenkeel)
    volumes(config, slots, worker["replicas"])
    for place in ("/dev/shm", "/run/evenkeel/sessions"):
        os.chmod(place, 0o1777)

    def command_of(replica: dict) -> list[str]:
        container = replica["template"]["spec"]["containers"][0]
        user = str(container["securityContext"]["runAsUser"])
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--", "env", "-i", "-C", HOME]
        path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        variables = [f"{entry['name']}={entry['value']}" for entry in container.get("env", [])]
        return [*as_user, path, f"HOME={HOME}", *variables, *added, *container["command"], *container["args"]]

    # The first node is for the launcher, the others are for the workers.
    added: list[str] = []
    for i in range(worker["replicas"]):
        subprocess.Popen([os.environ["EVENKEEL_ON_NODE"], f"n{i + 2}", *command_of(worker)])
    # Settings that the operator adds, and those that a busy machine needs, under the names of Open MPI 4's launcher, which is
    # in the image, and of Open MPI 5's, which this machine may have.
    launchers = {"keep_fqdn_hostnames": "true", "default_hostfile": "/run/evenkeel/hostfile", "set_default_slots": slots,
                 "tmpdir_base": "/run/evenkeel/sessions"}
    added = [f"{prefix}_{name}={value}" for prefix in ("OMPI_MCA_orte", "PRTE_MCA_prte") for name, value in launchers.items()]
    added += [f"{name}=-o ConnectionAttempts=10" for name in ("OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args")]
    added.append("OMPI_MCA_mpi_yield_when_idle=1")
    network = os.environ["OMPI_MCA_btl_tcp_if_include"]
    added += [f"{name}={network}" for name in ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")]
    time.sleep(0.5)
    # Under Linux 6.18, yielding ranks of one node sometimes got both cores, and the other node none, for most of a minute,
    # probably because zero_vruntime of the scheduler drifts then. The watchdog must not take such a rank for a dead one.
    patient = ["--set", "watchdog.seconds=120"]
    for run_again in (False, True):
        done = subprocess.run(command_of(launcher) + patient, capture_output=True, text=True, check=False)
        print(done.stdout, done.stderr, sep="")
        assert done.returncode == 0, f"the launcher ends with {done.returncode}"
        wanted = "0 steps left" if run_again else f"dp {slots * worker['replicas'] // 4} x pp 1"
        assert wanted in done.stdout + done.stderr, f"the launcher's output does not contain '{wanted}'"
        if not run_again:
            assert "bytes between nodes" in done.stdout
            report = json.loads(pathlib.Path(HOME, "output/report/report.json").read_text(encoding="utf-8"))
            assert len(report["steps"]) == 8
    return 0


if __name__ == "__main__":
    if sys.argv[1] == "fields":
        check_fields()
    elif sys.argv[1] == "run":
        sys.exit(run(sys.argv[2]))
    else:
        sys.exit(inside(pathlib.Path(sys.argv[2]), sys.argv[3]))
