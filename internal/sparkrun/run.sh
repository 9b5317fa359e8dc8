# Runs a Spark application on this machine, or on all machines of its task together. The lines before this one set
# spark_want, spark_later, spark_pip and spark_conf, and define submit and the arguments that depend on the task.

say() { echo "spark: $*" >&2; }
fail() { say "$*"; exit 1; }

# suits VERSION: whether the task wants it.
suits() {
	awk -v has="$1" -v want="$spark_want" -v later="$spark_later" 'BEGIN {
		n = split(want, w, "."); split(has, h, ".")
		for (i = 1; i <= n; i++)
			if (h[i] + 0 != w[i] + 0) exit !(later && i > 1 && h[i] + 0 > w[i] + 0)
	}'
}

# version_in HOME prints the version of the Spark there.
version_in() {
	for jar in "$1"/jars/spark-core_*.jar; do
		version=${jar##*-}
		echo "${version%.jar}"
	done
}

# package_of PYTHON prints where it has the package pyspark.
package_of() { "$1" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))' 2>/dev/null; }

# use HOME [PYTHON]: whether the Spark there suits; it is then the one that runs.
use() {
	[ -x "${1:-}/bin/spark-submit" ] && suits "$(version_in "$1")" || return 1
	SPARK_HOME=$1
	PYSPARK_PYTHON=${PYSPARK_PYTHON:-${2:-python3}}
	export SPARK_HOME PYSPARK_PYTHON
}

# machine_has DEBIAN RED_HAT installs a package of the machine's distribution.
machine_has() {
	[ "$(id -u)" = 0 ] || return 1
	if command -v apt-get >/dev/null; then
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$1"
	elif command -v dnf >/dev/null; then
		dnf install -q -y "$2"
	else
		return 1
	fi >&2
}

# install_spark installs the package pyspark, once for all tasks of this machine's user that want the same.
install_spark() {
	to=${XDG_CACHE_HOME:-${HOME:-$TMPDIR}/.cache}/tradewind/spark$(echo "$spark_pip" | tr -c 'A-Za-z0-9.\n' _)
	command -v python3 >/dev/null || machine_has python3 python3 || fail "there is no python3: install it, or Spark"
	mkdir -p "$to"
	(
		! command -v flock >/dev/null || flock 9
		[ ! -e "$to/complete" ] || exit 0
		say "installing pyspark$spark_pip in $to"
		python3 -m venv --system-site-packages "$to" >&2 || {
			machine_has python3-venv python3-pip && python3 -m venv --system-site-packages "$to" >&2
		} || fail "python3 -m venv does not work: install python3-venv, or Spark"
		"$to/bin/python3" -m pip install -q --disable-pip-version-check --ignore-installed "pyspark$spark_pip" >&2 ||
			fail "cannot install pyspark$spark_pip: install Spark, or set an image that has it"
		: >"$to/complete"
	) 9>"$to.lock"
	use "$(package_of "$to/bin/python3")" "$to/bin/python3" || fail "pyspark$spark_pip was installed, but does not suit"
}

# find_spark finds a Spark that suits: of SPARK_HOME, of the path, of python3; or else it installs one.
find_spark() {
	[ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null ||
		machine_has openjdk-17-jre-headless java-17-amazon-corretto-headless ||
		machine_has default-jre-headless java-17-openjdk-headless ||
		fail "there is no Java: install Java 17, or set an image that has it"
	if use "${SPARK_HOME:-}"; then return; fi
	submit=$(command -v spark-submit || true)
	if [ -n "$submit" ]; then
		bin=$(dirname "$(readlink -f "$submit")")
		if use "$(dirname "$bin")" || use "$(package_of "$bin/python3")" "$bin/python3"; then return; fi
	fi
	if use "$(package_of python3)"; then return; fi
	install_spark
}

# measure sets cores and memory (MiB): those of this machine, or this node's part if all nodes are on it.
measure() {
	cores=$(getconf _NPROCESSORS_ONLN)
	if [ -r /proc/meminfo ]; then
		memory=$(awk '/^MemTotal:/ { print int($2 / 1024) }' /proc/meminfo)
		limit=$(cat "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)/memory.max" 2>/dev/null || echo max)
		case $limit in
		*[!0-9]* | "") ;;
		*) [ $((limit / 1048576)) -ge "$memory" ] || memory=$((limit / 1048576)) ;;
		esac
	else
		memory=$(($(sysctl -n hw.memsize) / 1048576))
	fi
	case $TRADEWIND_HEAD in
	127.*) here=$TRADEWIND_NUM_NODES ;;
	*) here=1 ;;
	esac
	cores=$((cores / here))
	[ "$cores" -ge 1 ] || cores=1
	memory=$((memory / here))
}

# unset_in_conf PROPERTY: whether the task leaves it to this script.
unset_in_conf() { case " $spark_conf " in *" $1 "*) return 1 ;; esac; }

# quiet are properties that suit a batch of tasks: no user interface, no progress bar.
quiet() {
	unset_in_conf spark.ui.enabled && set -- "$@" --conf spark.ui.enabled=false
	unset_in_conf spark.ui.showConsoleProgress && set -- "$@" --conf spark.ui.showConsoleProgress=false
	submit "$@"
}

# alone runs the application in one process, with all vCPUs of the machine.
alone() {
	unset_in_conf spark.driver.memory && set -- "$@" --driver-memory $((memory / 2))m
	unset_in_conf spark.driver.host && set -- "$@" --conf spark.driver.host=127.0.0.1
	unset_in_conf spark.driver.bindAddress && set -- "$@" --conf spark.driver.bindAddress=127.0.0.1
	quiet --master "local[$cores]" "$@"
}

# start_worker starts this node's executor.
start_worker() {
	"$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker --host "$SPARK_LOCAL_IP" --cores "$cores" \
		--memory "${memory}m" --webui-port 0 --work-dir "$TMPDIR/spark-work" "spark://$TRADEWIND_HEAD:$TRADEWIND_PORT" \
		>"$TMPDIR/spark-worker.log" 2>&1 &
	worker=$!
}

# others prints the names of the other nodes.
others() { awk 'NR > 1 { print $2 }' "$TRADEWIND_HOSTS"; }

on() { "$TRADEWIND_RSH_AGENT" "$@"; }

# together prepares a node of a cluster: its address, and the secret without which no process can join it.
together() {
	[ -n "${TRADEWIND_RSH_AGENT:-}" ] || fail "the nodes of a cluster cannot reach each other from a container"
	SPARK_LOCAL_IP=$(printf '%s\n' "$TRADEWIND_NODES" | sed -n "$((TRADEWIND_NODE_RANK + 1))p")
	SPARK_DAEMON_JAVA_OPTS="-Dspark.authenticate=true ${SPARK_DAEMON_JAVA_OPTS:-}"
	export SPARK_LOCAL_IP SPARK_DAEMON_JAVA_OPTS
	umask 077
}

# lead runs the master, an executor and the application. The others write their part of a result into their own output
# folders, because only the driver renames folders: with version 2, a task of Spark renames its own files. So lead
# collects them in the end.
lead() {
	_SPARK_AUTH_SECRET=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
	export _SPARK_AUTH_SECRET
	"$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master --host "$TRADEWIND_HEAD" --port "$TRADEWIND_PORT" \
		--webui-port 0 >"$TMPDIR/spark-master.log" 2>&1 &
	master=$!
	printf '%s\n' "$_SPARK_AUTH_SECRET" "$TRADEWIND_INPUTS" "$TRADEWIND_OUTPUT" "$PWD" >"$TMPDIR/spark-head.part"
	mv "$TMPDIR/spark-head.part" "$TMPDIR/spark-head"
	start_worker
	unset_in_conf spark.executor.memory && set -- "$@" --executor-memory $((memory * 6 / 10))m
	unset_in_conf spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version &&
		set -- "$@" --conf spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version=2
	# The driver does not read the secret from its environment, and every user of the machine can read arguments.
	{
		[ ! -e "$SPARK_HOME/conf/spark-defaults.conf" ] || cat "$SPARK_HOME/conf/spark-defaults.conf"
		printf 'spark.authenticate true\nspark.authenticate.secret %s\n' "$_SPARK_AUTH_SECRET"
	} >"$TMPDIR/spark.properties"
	code=0
	quiet --master "spark://$TRADEWIND_HEAD:$TRADEWIND_PORT" --properties-file "$TMPDIR/spark.properties" \
		--conf "spark.driver.host=$SPARK_LOCAL_IP" --conf "spark.driver.bindAddress=$SPARK_LOCAL_IP" "$@" || code=$?
	if [ "$code" != 0 ]; then
		kill -0 "$master" 2>/dev/null || cat "$TMPDIR/spark-master.log" >&2
		exit "$code"
	fi
	for node in $(others); do
		on "$node" 'cd "$TRADEWIND_OUTPUT" && tar -cf - --exclude=_temporary . 2>/dev/null' |
			tar -xf - -C "$TRADEWIND_OUTPUT" || fail "cannot collect the outputs of $node"
		until on "$node" ': >"$TMPDIR/spark-done"'; do sleep 1; done
	done
	kill "$worker" "$master" 2>/dev/null || true
}

# follow runs an executor until the application has ended.
follow() {
	until head=$(on "$TRADEWIND_HEAD_NAME" 'cat "$TMPDIR/spark-head" 2>/dev/null'); do
		[ ! -e "$TMPDIR/spark-done" ] || exit 0
		sleep 1
	done
	_SPARK_AUTH_SECRET=$(printf '%s\n' "$head" | sed -n 1p)
	export _SPARK_AUTH_SECRET
	# The driver names files by its own paths.
	same 2 "$TRADEWIND_INPUTS"
	same 3 "$TRADEWIND_OUTPUT"
	same 4 "$PWD"
	start_worker
	while [ ! -e "$TMPDIR/spark-done" ]; do
		kill -0 "$worker" 2>/dev/null || {
			cat "$TMPDIR/spark-worker.log" >&2
			fail "the executor has ended before the application"
		}
		sleep 1
	done
	kill "$worker" 2>/dev/null || true
}

# same LINE PATH makes the path of the head in this line of spark-head mean PATH here.
same() {
	path=$(printf '%s\n' "$head" | sed -n "$1p")
	[ -e "$path" ] || { mkdir -p "$(dirname "$path")" && ln -s "$2" "$path"; }
}

find_spark
measure
SPARK_LOCAL_DIRS=$TMPDIR
export SPARK_LOCAL_DIRS
say "Spark $(version_in "$SPARK_HOME") in $SPARK_HOME, $cores cores, $memory MiB"
if [ "$TRADEWIND_NUM_NODES" = 1 ]; then
	alone
	exit
fi
together
if [ "$TRADEWIND_NODE_RANK" = 0 ]; then
	lead
else
	TRADEWIND_HEAD_NAME=$(awk 'NR == 1 { print $2 }' "$TRADEWIND_HOSTS")
	follow
fi
