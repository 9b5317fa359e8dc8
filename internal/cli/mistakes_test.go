package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// TestBeginnerMistakes checks the messages for mistakes that new users make.
func TestBeginnerMistakes(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"where.yaml": "apiVersion: tradewind/v1\nname: j\nregions: [eu-wst-1]\ntasks: {a: {run: ls}}\n",
		"union.yaml": "apiVersion: tradewind/v1\nname: j\nregions: [eu]\n" +
			"tasks: {a: {run: ls, time: 5m, resources: {accelerators: 'Trainium:16'}}}\n",
		"image.yaml":  "apiVersion: tradewind/v1\nname: j\ntasks: {a: {run: ls, time: 5m, resources: {cpus: 1, image: 'python:3.12'}}}\n",
		"in/a.sbatch": "#!/bin/sh\n#SBATCH -t 5\npython3 train.py <./data.csv >out.txt\n",
		"odd.yaml":    "apiVersion: tradewind/v1\nname: j\ntasks: {a: {run: ls, time: 5m, resources: {accelerators: 'H1OO:8'}}}\n",
		"all.yaml": "apiVersion: tradewind/v1\nname: j\nqueue: 'a b'\ntasks:\n  a: {run: ls, workdir: gone, inputs: [lost, {uri: away}], nodes: 0}\n" +
			"  b: {run: ls, workdir: vanished}\n  c: {gang: {roles: {x: {run: ls, workdir: nowhere, time: 5}}}}\n",
		"none.yaml": "apiVersion: tradewind/v1\nname: j\ntasks:\n  a: {run: ls, workdir: gone, secrets: [S, T]}\n  b: {run: ls, inputs: [lost]}\n",
		"sky.yaml": "run: ls\nworkdir: gone\nfile_mounts: {/a: lost, /b: away}\nenvs: {E: null}\nsecrets: {S: null}\n" +
			"resources: {cpus: many, any_of: [{memory: much}]}\n---\nrun: ls\nworkdir: vanished\n",
		"late.sbatch": "#!/bin/sh\necho first\n#SBATCH -N 2\necho x\n",
		"in/train.py": "", "in/data.csv": "", "in/other.txt": "",
		"in/sky.yaml": "name: s\nworkdir: .\nfile_mounts: {/data/a.txt: ./data.csv, /data/b: s3://b/c}\nrun: python3 train.py\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	const kube = "deploy kubernetes --image x:v1 --dry-run "
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"plan " + at("where.yaml"), command.ExitInfeasible, []string{`no cloud has "eu-wst-1"`, `did you mean "eu-west-1"?`}},
		{"plan " + at("union.yaml"), command.ExitInfeasible,
			[]string{"no matching offer is in the regions that the job allows"}},
		{"plan " + at("odd.yaml"), command.ExitBadInput, []string{"odd.yaml:3:", `tasks.a.resources`, `unknown accelerator "H1OO"`}},
		{"plan " + at("late.sbatch"), command.ExitBadInput, []string{"not a Slurm batch script", "before its first command"}},
		{"plan " + at("image.yaml"), command.ExitDone, []string{":3:", "a container image is written docker:python:3.12"}},
		{"plan " + at("in/a.sbatch"), command.ExitDone, []string{"train.py and 1 more will be missing on the machine"}},
		{"convert " + at("in/sky.yaml") + " --out " + at("out/job.yaml"), command.ExitBadInput, []string{"out"}},
		{"convert " + at("in/sky.yaml") + " --out " + at("job.yaml"), command.ExitDone, nil},
		{"plan " + at("all.yaml"), command.ExitBadInput, []string{":3:8: queue", ":5:25: tasks.a.workdir", ":5:40: tasks.a.inputs[0]",
			":5:46: tasks.a.inputs[1]", ":5:67: tasks.a.nodes", ":6:25: tasks.b.workdir", ":7:44: tasks.c.gang.roles.x.workdir",
			":7:59: tasks.c.gang.roles.x.time"}},
		{"run " + at("none.yaml"), command.ExitBadInput, []string{":4:25: tasks.a.workdir", ":4:41: tasks.a.secrets.S",
			":4:44: tasks.a.secrets.T", ":5:25: tasks.b.inputs[0]"}},
		{"run " + at("sky.yaml"), command.ExitBadInput, []string{`:2:10: workdir: "gone"`, `:3:19: file_mounts["/a"]`,
			`:3:29: file_mounts["/b"]`, ":4:8: envs.E", ":6:19: resources.cpus", ":6:43: resources.any_of[0].memory", ":9:10: workdir"}},
		{"queue set lab --max memry=8", command.ExitBadInput, []string{`unknown resource "memry"; did you mean memory?`}},
		{"queue set lab --max A1000=8", command.ExitBadInput, []string{`unknown resource "A1000"; did you mean`}},
		{"catalog search --gpu A100x8", command.ExitBadInput, []string{"did you mean A100:8?"}},
		{kube + "--clouds awss --public-url https://x.example", command.ExitBadInput, []string{`did you mean "aws"?`}},
		{kube + "--clouds aws", command.ExitBadInput, []string{"--public-url"}},
		{kube + "--clouds aws --public-url http://x", command.ExitBadInput, []string{"not https"}},
		{kube + "--public-url https://x.example", command.ExitBadInput, []string{"--clouds names"}},
		{kube + "--namespace Bad_NS", command.ExitBadInput, []string{`--namespace: invalid namespace "Bad_NS"`}},
		{kube + "--storage lots", command.ExitBadInput, []string{`--storage: "lots" is not a size`}},
	} {
		p := newProgram(t)
		r := p.run(strings.Fields(c.args)...)
		if r.code != c.code {
			t.Errorf("%s: exit code %d, want %d\n%s%s", c.args, r.code, c.code, r.out, r.err)
		}
		for _, says := range c.says {
			if !strings.Contains(r.out+r.err, says) {
				t.Errorf("%s: missing output: %s\n%s%s", c.args, says, r.out, r.err)
			}
		}
	}
	job, err := os.ReadFile(at("job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd() // base of the paths in SkyPilot files
	if err != nil {
		t.Fatal(err)
	}
	back, err := filepath.Rel(dir, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"workdir: " + back + "\n", "uri: " + back + "/data.csv", "'s3://b/c'"} {
		if !strings.Contains(string(job), want) {
			t.Errorf("no %q in the converted job:\n%s", want, job)
		}
	}
}
