// Package sparkjob runs the Spark applications of emulated services.
package sparkjob

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Result is the output of an application and its error, which is nil if it succeeded.
type Result struct {
	Stdout, Stderr []byte
	Err            error
}

// Runner runs an application: args are those of spark-submit without its master. It returns early when ctx ends.
type Runner func(ctx context.Context, args []string) Result

// Spark runs applications with a real Spark in one process.
type Spark struct {
	// Bin is the folder of a Python environment with pyspark.
	Bin string
	// Jars is the folder of the connectors to S3 and Cloud Storage; see `make emulators`.
	Jars string
	// Properties are those of the connectors; see S3 and Storage.
	Properties map[string]string
	// Dir has the temporary files of Spark.
	Dir string
}

// S3 returns the properties with which Spark reads and writes an emulated S3, also as s3://.
func S3(endpoint string) map[string]string {
	p := map[string]string{ //nolint:gosec // every key opens the emulator
		"endpoint": endpoint, "path.style.access": "true", "access.key": "testing", "secret.key": "testing",
		"connection.ssl.enabled": "false", "endpoint.region": "us-east-1", "change.detection.mode": "none",
		"aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
	}
	all := map[string]string{"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
	for k, v := range p {
		all["spark.hadoop.fs.s3a."+k] = v
	}
	return all
}

// Storage returns the properties with which Spark reads and writes an emulated Cloud Storage.
func Storage(endpoint, project string) map[string]string {
	return map[string]string{
		"spark.hadoop.fs.gs.impl":             "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
		"spark.hadoop.fs.gs.storage.root.url": endpoint + "/", "spark.hadoop.fs.gs.project.id": project,
		"spark.hadoop.fs.gs.auth.service.account.enable": "false", "spark.hadoop.fs.gs.auth.null.enable": "true",
	}
}

// Run implements Runner.
func (s Spark) Run(ctx context.Context, args []string) Result {
	jars, err := filepath.Glob(filepath.Join(s.Jars, "*.jar"))
	if err != nil || len(jars) == 0 {
		return Result{Err: fmt.Errorf("no connectors in %s: run `make emulators`", s.Jars)}
	}
	all := []string{"--master", "local[2]"}
	properties := map[string]string{
		"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.driver.host": "127.0.0.1",
		"spark.driver.bindAddress": "127.0.0.1", "spark.driver.extraClassPath": strings.Join(jars, ":"),
		"spark.local.dir": s.Dir,
	}
	for _, p := range []map[string]string{properties, s.Properties} {
		for k, v := range p {
			all = append(all, "--conf", k+"="+v)
		}
	}
	// The driver is this process. The memory that a service reserves for its workers would not fit here.
	all = append(all, drop(args, "spark.driver.memory=", "spark.executor.memory=", "spark.driver.cores=",
		"spark.executor.cores=", "spark.dynamicAllocation.")...)
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, "spark-submit"), all...) //nolint:gosec // of a test
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "PYSPARK_PYTHON="+filepath.Join(s.Bin, "python3"), "TMPDIR="+s.Dir)
	cmd.Dir = s.Dir
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	return Result{Stdout: out.Bytes(), Stderr: log.Bytes(), Err: err}
}

// drop removes --conf options whose value begins with one of the prefixes, and --deploy-mode.
func drop(args []string, prefixes ...string) (kept []string) {
next:
	for i := 0; i < len(args); i++ {
		if i+1 < len(args) {
			switch args[i] {
			case "--deploy-mode":
				i++
				continue next
			case "--conf":
				for _, p := range prefixes {
					if strings.HasPrefix(args[i+1], p) {
						i++
						continue next
					}
				}
			}
		}
		kept = append(kept, args[i])
	}
	return kept
}
