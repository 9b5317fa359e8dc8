package slurm_test

import (
	"os/exec"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag/slurm"
)

func TestScriptGetsArguments(t *testing.T) {
	for _, script := range []string{
		"#!/bin/sh\n#SBATCH -n 1\necho \"$#: $1, $2\"\n",
		"#!/usr/bin/perl\n#SBATCH -n 1\nprint scalar(@ARGV) . \": $ARGV[0], $ARGV[1]\\n\";\n",
	} {
		j, err := slurm.Parse("job.sbatch", []byte(script))
		if err != nil {
			t.Fatal(err)
		}
		slurm.SetArgs(j, []string{"a b", "it's"})
		c := exec.CommandContext(t.Context(), "sh", "-c", j.Tasks[0].Run) //nolint:gosec // the script above
		c.Dir = t.TempDir()
		c.Env = append(c.Environ(), "TRADEWIND_JOB=j", "TRADEWIND_RESTORED=0")
		if out, err := c.CombinedOutput(); err != nil || string(out) != "2: a b, it's\n" {
			t.Errorf("%v: %s", err, out)
		}
	}
}
