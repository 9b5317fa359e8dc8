package slurm_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

// TestScriptsSeeSlurmVariables runs testdata/stories. Each story has a script and its output. The script runs like
// its first task, on machines 10.0.0.1 and so on.
func TestScriptsSeeSlurmVariables(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			j, err := slurm.Parse("job.sbatch", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			dir := t.TempDir()
			var hosts strings.Builder
			for i := range nodesOf(j) {
				fmt.Fprintf(&hosts, "10.0.0.%d node-%[1]d\n", i+1)
			}
			write(t, filepath.Join(dir, "hosts"), hosts.String(), 0o600)
			cmd := exec.CommandContext(t.Context(), sh, "-c", j.Tasks[0].Run)
			cmd.Dir = dir
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TRADEWIND_JOB=j",
				"TRADEWIND_HOSTS=" + filepath.Join(dir, "hosts")}
			for name, value := range dag.MergeEnv(j.Tasks[0].Env, j.MemberEnv(0)) {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			text, err := cmd.CombinedOutput()
			if err != nil {
				d.Fatalf(t, "%v: %s\n%s", err, text, j.Tasks[0].Run)
			}
			return string(text)
		})
	})
}

// nodesOf returns the number of machines with which a job's first task starts.
func nodesOf(j *dag.Job) (n int) {
	for _, i := range j.Gang(0) {
		n += j.Tasks[i].Nodes
	}
	return n
}

// TestInterpreter: a shell runs the script after the prelude, with the flags that set supports. Any other interpreter
// gets the script as a file.
func TestInterpreter(t *testing.T) {
	for line, want := range map[string]string{
		"":                                   "",
		"#!":                                 "",
		"#! ":                                "",
		"#!/bin/sh":                          "",
		"#!/bin/bash -el":                    "set -e",
		"#!/bin/bash -e -ux":                 "set -eux",
		"#!/bin/bash --posix -e":             "set -e",
		"#!/usr/bin/env dash":                "",
		"#!/usr/bin/env -S bash -eu":         "set -eu",
		"#!/usr/bin/env bash -C":             "set -C",
		"#!/usr/bin/env":                     "exec /usr/bin/env .slurm/script",
		"#!/usr/bin/env -S":                  "exec /usr/bin/env -S .slurm/script",
		"#!/usr/bin/env python3":             "exec /usr/bin/env python3 .slurm/script",
		"#!/usr/bin/env -S perl -w":          "exec /usr/bin/env -S perl -w .slurm/script",
		"#!/usr/bin/python3 -u":              "exec /usr/bin/python3 -u .slurm/script",
		"#!/opt/my shell/bin/zsh":            "exec /opt/my shell/bin/zsh .slurm/script",
		"#!/usr/bin/awk -f  # what it reads": "exec /usr/bin/awk -f '#' what it reads .slurm/script",
	} {
		script := line + "\n#SBATCH -J j\nwork\n"
		j, err := slurm.Parse("job.sbatch", []byte(script))
		if err != nil {
			t.Fatal(err)
		}
		run := j.Tasks[0].Run
		if strings.HasPrefix(want, "exec ") {
			if !strings.HasSuffix(run, "\n"+want+"\n") {
				t.Errorf("%s: does not end with %s:\n%s", line, want, run)
			}
			continue
		}
		flags := ""
		if before, ok := strings.CutSuffix(run, script); !ok {
			t.Errorf("%s: the script was changed:\n%s", line, run)
		} else if _, after, found := strings.Cut(before, "\nset "); found {
			flags = "set " + strings.TrimSuffix(after, "\n")
		}
		if flags != want {
			t.Errorf("%s: %q, want %q", line, flags, want)
		}
	}
}

// TestLimitsOfOptions checks that the maximum of each option is accepted, and that more is an error.
func TestLimitsOfOptions(t *testing.T) {
	for options, want := range map[string]string{
		"--mem=1000000G":                            "",
		"--mem=1000001G":                            `--mem: "1000001G" is more than a machine has`,
		"--time=3650-0":                             "",
		"--time=3650-0:01":                          `--time: "3650-0:01" is not a time`,
		"--time=3651-0":                             `--time: "3651-0" is not a time`,
		"--time=0:10000000":                         "",
		"--time=0:10000001":                         `--time: "0:10000001" is not a time`,
		"--array=0-9999":                            "",
		"--array=1-10001":                           "--array: an array of more than 10000",
		"-n 1000 --ntasks-per-node=1":               "",
		"-n 1001 --ntasks-per-node=1":               "1001 nodes of 1 processors are more than can be requested",
		"-n 10000 -c 10":                            "",
		"-n 10000 -c 11":                            "1 nodes of 110000 processors are more than can be requested",
		"--gpus=a100:10 --cpus-per-gpu=10000":       "",
		"--gpus=a100:11 --cpus-per-gpu=10000":       "110000 processors per node are more than can be requested",
		"-N 1000 --ntasks-per-node=2":               "",
		"-N 1001":                                   "--nodes: ",
		"--array=1-2%10001":                         "--array: ",
		"-n 10001":                                  "--ntasks: ",
		"--gpus-per-task=a100:10001":                "--gpus-per-task: ",
		"--gres=gpu:a100:1,gpu:a100:10001":          "--gres: ",
		"--array=1-100001":                          "--array: ",
		"--array=100000":                            "",
		"--signal=B:USR1@65535":                     "",
		"--signal=64":                               "",
		"--signal=USR1@65536":                       "--signal: ",
		"--signal=65":                               `--signal: "65" is not a signal`,
		"--signal=USR3":                             `--signal: "USR3" is not a signal`,
		"--signal=X:USR1":                           `--signal: "X:USR1" is not a signal`,
		"--time=-1-0":                               `--time: "-1-0" is not a time`,
		"--nodes=2-1001 --ntasks-per-node=1 -c 100": "--nodes: ",
	} {
		_, err := slurm.Parse("job.sbatch", []byte("#SBATCH "+options+"\ntrue\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", options, err, want)
		}
	}
}

// chained returns scripts with arrays. Each script waits for the previous one.
func chained(arrays ...string) (scripts []slurm.Script) {
	for i, array := range arrays {
		text := fmt.Sprintf("#SBATCH -J s%d --array=%s\n", i, array)
		if i > 0 {
			text = fmt.Sprintf("#SBATCH -J s%d --array=%s --dependency=afterok:s%d\n", i, array, i-1)
		}
		scripts = append(scripts, slurm.Script{Name: fmt.Sprintf("s%d.sbatch", i), Data: []byte(text + "true\n")})
	}
	return scripts
}

// TestDependenciesOfArraysAreLimited: each task of an array waits for all tasks of another array. The number of
// dependencies must be limited.
func TestDependenciesOfArraysAreLimited(t *testing.T) {
	j, err := slurm.Chain(chained("1-1000", "1-1000"))
	if err != nil || len(j.Edges) != jobtext.MaxEdges {
		t.Errorf("%v", err)
	}
	for _, arrays := range [][]string{{"1-1001", "1-1000"}, {"1-1000", "1-1000", "1"}} {
		const want = "--dependency: tasks wait for each other more than 1000000 times"
		if _, err := slurm.Chain(chained(arrays...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", arrays, err)
		}
	}
}

// TestWarningsAreLimited: the warnings of all scripts together must stay within the limit of a job.
func TestWarningsAreLimited(t *testing.T) {
	var scripts []slurm.Script
	for i := range 4 {
		text := fmt.Sprintf("#SBATCH -J s%d\n", i)
		for _, option := range strings.Fields("account uid gid wckey clusters priority power switches " +
			"reservation batch comment hint network profile qos partition output error " +
			"mail-type mail-user constraint nodelist exclude prefer chdir segment " +
			"propagate nice time-min mem-bind extra core-spec thread-spec gpu-bind gpu-freq") {
			text += fmt.Sprintf("#SBATCH --%s=x\n", option)
		}
		scripts = append(scripts, slurm.Script{Name: fmt.Sprintf("s%d.sbatch", i), Data: []byte(text + "true\n")})
	}
	j, err := slurm.Chain(scripts)
	if err != nil || len(j.Warnings) != dag.MaxWarnings || !strings.HasPrefix(j.Warnings[99], "s2.sbatch:31:1: --") {
		t.Errorf("%v: %d warnings, the last %q", err, len(j.Warnings), j.Warnings[len(j.Warnings)-1])
	}
}
