#!/usr/bin/env bash
# A real Slurm of three nodes on this machine, for trying the workflow.
#   apt-get install slurm-wlm munge
#   tests/slurm/up.sh FOLDER         as root: /etc/slurm/slurm.conf becomes a link to the one in FOLDER
#   tests/slurm/up.sh FOLDER stop
# Partition "low" may be preempted (its jobs go back into the queue), "high" preempts.
# No cgroups, no accounting: what a container allows. Tried with Debian's Slurm 22.05.
set -euo pipefail
folder=$(realpath -m "${1:?folder}")
nodes="n1 n2 n3"
conf=$folder/slurm.conf
installed=/etc/slurm/slurm.conf  # Snakemake takes SLURM_CONF out of the environment of its jobs

stop() {
  for daemon in n1 n2 n3 slurmctld munged; do
    [ ! -s "$folder/$daemon.pid" ] || kill "$(cat "$folder/$daemon.pid")" 2>/dev/null || true
  done
  [ "$(readlink $installed)" != "$conf" ] || rm $installed
}
if [ "${2:-}" = stop ]; then stop; exit; fi

for program in munged slurmctld slurmd squeue; do
  PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "$program is missing: apt-get install slurm-wlm munge"; exit 1; }
done
export PATH=$PATH:/usr/sbin
if [ -e $installed ] && [ "$(readlink $installed)" != "$conf" ]; then echo "$installed exists: another Slurm is set up here"; exit 1; fi
mkdir -p "$(dirname $installed)"
ln -sfn "$conf" $installed
mkdir -p "$folder"/{munge,state,n1,n2,n3}
chmod 711 "$folder" "$folder/munge"  # munged wants a folder that only its owner can change
[ -s "$folder/munge.key" ] || (umask 077; head -c 128 /dev/urandom >"$folder/munge.key")
user=$(id -un)
host=$(hostname -s)
memory=$(($(awk '/MemTotal/ {print $2}' /proc/meminfo) / 1024 / 4))
cat >"$conf" <<CONF
ClusterName=trial
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
SlurmUser=$user
SlurmdUser=$user
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/%n.pid
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/%n
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/%n.log
ReturnToService=2
MinJobAge=600
KillWait=5
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=5,sched_interval=5
$(port=16820; for node in $nodes; do
  echo "NodeName=$node NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port++)) CPUs=1 RealMemory=$memory State=UNKNOWN"
done)
PartitionName=low Nodes=n[1-3] Default=YES PriorityTier=1 PreemptMode=REQUEUE MaxTime=INFINITE State=UP
PartitionName=high Nodes=n[1-3] PriorityTier=10 PreemptMode=OFF MaxTime=INFINITE State=UP
CONF
munged --force --socket="$folder/munge/socket" --key-file="$folder/munge.key" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed"
slurmctld
for node in $nodes; do slurmd -N "$node"; done
for _ in $(seq 30); do
  [ "$(sinfo -h -N -o %t -p low 2>/dev/null | grep -c idle)" != 3 ] || break
  sleep 1
done
sinfo
