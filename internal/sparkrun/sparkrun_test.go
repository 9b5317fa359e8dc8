package sparkrun_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/sparkrun"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// write writes a file, and creates its folder.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// fakeSpark makes a folder like an installed Spark. Its programs print their arguments.
func fakeSpark(t *testing.T, version string) (home string) {
	t.Helper()
	home = t.TempDir()
	write(t, filepath.Join(home, "jars/spark-core_2.12-"+version+".jar"), "", 0o600)
	write(t, filepath.Join(home, "bin/spark-submit"),
		"#!/bin/sh\necho "+version+"\nfor a in \"$@\"; do printf '<%s>\\n' \"$a\"; done\n", 0o700)
	return home
}

// run runs the script of an application on one machine. path is prepended to PATH.
func run(t *testing.T, a *dag.SparkApp, path string, env ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bin/java"), "#!/bin/sh\n", 0o700)
	write(t, filepath.Join(dir, "script"), sparkrun.Script(a), 0o600)
	cmd := exec.Command("/bin/sh", filepath.Join(dir, "script"))
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + path + ":" + filepath.Join(dir, "bin") + ":/usr/bin:/bin", "TMPDIR=" + dir,
		"TRADEWIND_NUM_NODES=1", "TRADEWIND_HEAD=10.0.0.1", "TRADEWIND_OUTPUT=/out put"}, env...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	return out.String() + log.String(), err
}

func TestArgumentsReachTheApplication(t *testing.T) {
	app := &dag.SparkApp{
		Main: "s3://code/app.jar", Class: "org.example.Main", Jars: []string{"lib/a.jar", "s3://code/b.jar"},
		Packages: []string{"a.b:c_2.12:1.0"}, Conf: map[string]string{"spark.x": "it's $HOME", "spark.driver.memory": "3g"},
		Args: []string{"$TRADEWIND_OUTPUT/r", "${YEAR}-01", "$$5", "a$", "`id`", `"\`, "it's", "", "*"},
	}
	got, err := run(t, app, "", "SPARK_HOME="+fakeSpark(t, "3.5.3"), "YEAR=2024")
	if err != nil {
		t.Fatal(err, got)
	}
	want := `<--class>
<org.example.Main>
<--jars>
<lib/a.jar,b.jar>
<--packages>
<a.b:c_2.12:1.0>
<--conf>
<spark.driver.memory=3g>
<--conf>
<spark.x=it's $HOME>
<app.jar>
</out put/r>
<2024-01>
<$5>
<a$>
<` + "`id`" + `>
<"\>
<it's>
<>
<*>
`
	if !strings.Contains(got, want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if !strings.Contains(got, "<--master>\n<local[") || strings.Contains(got, "--driver-memory") {
		t.Errorf("not in local mode with its own memory:\n%s", got)
	}
}

func TestTakesTheSparkThatSuits(t *testing.T) {
	old, suits := fakeSpark(t, "3.4.4"), fakeSpark(t, "3.5.6")
	for _, c := range []struct{ version, home, path, want string }{
		{"", suits, "", "3.5.6"},
		{"3.5+", old, suits + "/bin", "3.5.6"},
		{"3.4", old, suits + "/bin", "3.4.4"},
		{"3.4+", suits, old + "/bin", "3.5.6"},
		{"3.5.6", "", suits + "/bin", "3.5.6"},
		{"4.0+", suits, old + "/bin", "pyspark>=4.0,<5"}, // this version would be installed
		{"3.5.1", suits, "", "pyspark==3.5.1"},
		{"3.5", old, "", "pyspark==3.5.*"},
	} {
		// This python3 has no pyspark, and cannot make an environment.
		python := t.TempDir()
		write(t, filepath.Join(python, "python3"), "#!/bin/sh\nexit 1\n", 0o700)
		got, err := run(t, &dag.SparkApp{Main: "a.py", Version: c.version}, c.path+":"+python, "SPARK_HOME="+c.home,
			"HOME="+python)
		if !strings.Contains(got, c.want) || strings.HasPrefix(c.want, "pyspark") != (err != nil) {
			t.Errorf("%q: %v\n%s, want %s", c.version, err, got, c.want)
		}
	}
}

// squares is an application that waits for its executors and prints on which machines they run.
const squares = `import os, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
context = spark.sparkContext
give_up = time.time() + 300
while context._jsc.sc().getExecutorMemoryStatus().size() < int(sys.argv[3]):
    if time.time() > give_up:
        sys.exit("the executors have not started")
    time.sleep(0.1)
rows = spark.read.csv(sys.argv[1], schema="n int")
rows.repartition(6, "n").selectExpr("n", "n * n as square").write.csv(sys.argv[2])
hosts = context.range(60, numSlices=60).map(lambda _: os.environ.get("SPARK_LOCAL_IP", "")).collect()
print("executors at", *sorted(set(hosts)))
`

// TestClusterCollectsOutputs runs an application on two machines with separate files, as in a cloud. Each is a mount
// namespace that does not see the folders of the other. The result must equal that of one machine.
func TestClusterCollectsOutputs(t *testing.T) {
	bin := sparktest.Bin(t, "../..")
	enters := `mount -t tmpfs none /mnt && touch /mnt/it && nsenter --mount=/proc/$$/ns/mnt ls /mnt/it`
	if exec.Command("unshare", "-m", "sh", "-c", enters).Run() != nil {
		t.Skip("needs root, unshare and nsenter to give each machine its own files")
	}
	top := t.TempDir()
	// Executors do not wait for local data, so each writes a part of the result.
	app := &dag.SparkApp{
		Main: "squares.py", Args: []string{"$TRADEWIND_INPUTS/n.csv", "$TRADEWIND_OUTPUT/squares", "$MEMBERS"},
		Conf: map[string]string{"spark.locality.wait": "0s", "spark.driver.memory": "512m", "spark.executor.memory": "512m"},
	}
	var numbers strings.Builder
	for i := range 500 {
		fmt.Fprintln(&numbers, i)
	}
	hosts := filepath.Join(top, "hosts")
	write(t, hosts, "127.0.0.1 t-0\n127.0.0.2 t-1\n", 0o600)
	// This fake of the agent's program runs a command in the namespace of a node, with the node's variables.
	rsh := filepath.Join(top, "rsh")
	write(t, rsh, `#!/bin/sh
[ -e `+top+`/pid-$1 ] || exit 1
exec nsenter --mount=/proc/$(cat `+top+`/pid-$1)/ns/mnt sh -c ". `+top+`/env-$1; $2"
`, 0o700)
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	node := func(ctx context.Context, nodes, rank int) *exec.Cmd {
		name, dir := fmt.Sprintf("t-%d", rank), filepath.Join(top, fmt.Sprint(nodes), fmt.Sprint("node", rank))
		for _, d := range []string{"in", "out", "work", "tmp"} {
			write(t, filepath.Join(dir, d, ".keep"), "", 0o600)
		}
		_ = os.Remove(filepath.Join(dir, "out/.keep"))
		write(t, filepath.Join(dir, "in/n.csv"), numbers.String(), 0o600)
		write(t, filepath.Join(dir, "work/squares.py"), squares, 0o600)
		script := filepath.Join(top, "script")
		write(t, script, sparkrun.Script(app), 0o600)
		env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + dir + "/tmp", "TRADEWIND_HEAD=127.0.0.1",
			"SPARK_DAEMON_MEMORY=256m", fmt.Sprint("TRADEWIND_PORT=", port),
			fmt.Sprint("TRADEWIND_NUM_NODES=", nodes), fmt.Sprint("TRADEWIND_NODE_RANK=", rank),
			"TRADEWIND_NODES=127.0.0.1\n127.0.0.2", "TRADEWIND_HOSTS=" + hosts, "TRADEWIND_RSH_AGENT=" + rsh,
			"TRADEWIND_INPUTS=" + dir + "/in", "TRADEWIND_OUTPUT=" + dir + "/out", fmt.Sprint("MEMBERS=", nodes+min(nodes-1, 1))}
		var exports strings.Builder
		for _, e := range env {
			variable, value, _ := strings.Cut(e, "=")
			fmt.Fprintf(&exports, "export %s='%s'\n", variable, value)
		}
		write(t, filepath.Join(top, "env-"+name), exports.String(), 0o600)
		hide := ""
		for other := range nodes {
			if other != rank {
				at := filepath.Join(top, fmt.Sprint(nodes), fmt.Sprint("node", other))
				hide += "mkdir -p " + at + " && mount -t tmpfs none " + at + " && "
			}
		}
		cmd := exec.CommandContext(ctx, "unshare", "-m", "sh", "-c",
			hide+"echo $$ >"+top+"/pid-"+name+" && cd "+dir+"/work && exec sh "+script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		cmd.WaitDelay = time.Minute // a process that a failed node leaves behind can hold its output open
		cmd.Env = env
		return cmd
	}
	result := func(nodes int) (lines []string, log string) {
		// If one node ends with an error, the others are killed, like by an agent.
		patience, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // otherwise it could not show the logs
		defer cancel()
		group, ctx := errgroup.WithContext(patience)
		logs := make([]bytes.Buffer, nodes)
		for rank := range nodes {
			cmd := node(ctx, nodes, rank)
			cmd.Stdout, cmd.Stderr = &logs[rank], &logs[rank]
			group.Go(func() error {
				if err := cmd.Run(); err != nil {
					return fmt.Errorf("rank %d of %d: %w", rank, nodes, err)
				}
				return nil
			})
		}
		err := group.Wait()
		for rank := range logs {
			log += logs[rank].String()
		}
		if err != nil {
			daemons, _ := filepath.Glob(filepath.Join(top, "*/node*/tmp/spark-*.log"))
			for _, file := range daemons {
				body, _ := os.ReadFile(file)
				log += file + ":\n" + string(body)
			}
			t.Fatalf("%v\n%s", err, log)
		}
		files, err := filepath.Glob(filepath.Join(top, fmt.Sprint(nodes), "node0/out/squares/part-*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no result: %v\n%s", err, log)
		}
		for _, f := range files {
			body, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, strings.Fields(string(body))...)
		}
		slices.Sort(lines)
		return lines, log
	}
	alone, _ := result(1)
	two, log := result(2)
	if !slices.Equal(alone, two) || len(two) != 500 {
		t.Errorf("two machines have %d rows, one has %d", len(two), len(alone))
	}
	if used := regexp.MustCompile(`executors at .*`).FindString(log); used != "executors at 127.0.0.1 127.0.0.2" {
		t.Errorf("the cluster used %q\n%s", used, log)
	}
}
