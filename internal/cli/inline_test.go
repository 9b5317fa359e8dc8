package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

func TestCommandLineIsQuotedForShell(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("train.py", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"python", "train.py", "--lr=0.1"}, "python train.py --lr=0.1"},
		{[]string{"echo", "it's", "a b", "$HOME", ""}, `echo 'it'\''s' 'a b' '$HOME' ''`},
		{[]string{"a && b | c"}, "a && b | c"},
	} {
		p := newProgram(t)
		r := p.run(append([]string{"run", "--time", "1m", "--"}, c.words...)...)
		if r.code != command.ExitDone {
			t.Fatalf("%q: exit %d: %s", c.words, r.code, r.err)
		}
		if got := p.hosts.broker.submitted[0].Spec.Tasks[0].Run; got != c.want {
			t.Errorf("%q runs %s, want %s", c.words, got, c.want)
		}
	}
}

func TestCommandThatNamesFileUploadsFolder(t *testing.T) {
	p := newProgram(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("train.py", []byte("print(1)"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		words []string
		packs bool
	}{{[]string{"python", "train.py"}, true}, {[]string{"python", "-V"}, false}} {
		r := p.run(append([]string{"run", "--"}, c.words...)...)
		if r.code != command.ExitDone {
			t.Fatalf("exit %d: %s", r.code, r.err)
		}
		s := p.hosts.broker.submitted[len(p.hosts.broker.submitted)-1]
		if got := s.Spec.Tasks[0].Workdir != ""; got != c.packs {
			t.Errorf("%q: the folder is uploaded: %v", c.words, got)
		}
	}
}

func TestRunRefusesCommandWhoseScriptIsMissing(t *testing.T) {
	p := newProgram(t)
	t.Chdir(t.TempDir())
	for _, name := range []string{"train.py", "run.sh"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		line    string // its words are separate arguments if it begins with +
		missing string
	}{
		{"+python missing.py", "missing.py"},
		{"+./missing.sh", "./missing.sh"},
		{"+bin/program --fast", "bin/program"},
		{"+python3.12 -u -W ignore missing.py --out x.py", "missing.py"},
		{"+torchrun --nproc_per_node 4 missing.py", "missing.py"},
		{"+bash -e missing.sh", "missing.sh"},
		{"+sh missing", "missing"},
		{"python missing.py | tee log", "missing.py"},
		{`LR=1 python missing.py --name "a b"`, "missing.py"},
		{"+python train.py --out model.py", ""},
		{"+./run.sh", ""},
		{"+python -m missing", ""},
		{"+python -c print(1)", ""},
		{"+bash -lc ./missing.sh", ""},
		{"+perl -ne print x.pl", ""},
		{"+node", ""},
		{"+missing", ""},
		{"+/opt/app/run.sh", ""},
		{"+python /opt/app/run.py", ""},
		{"curl -O https://example.com/x.py && python x.py", ""},
		{`python "$HOME/x.py"`, ""},
		{"python part-$N.py", ""},
		{"cat <<E >x.py", ""},
	} {
		words := []string{c.line}
		if rest, split := strings.CutPrefix(c.line, "+"); split {
			words = strings.Fields(rest)
		}
		before := len(p.hosts.broker.submitted)
		r := p.run(append([]string{"run", "--"}, words...)...)
		want, jobs := command.ExitDone, 1
		if c.missing != "" {
			want, jobs = command.ExitBadInput, 0
		}
		if r.code != want || len(p.hosts.broker.submitted)-before != jobs {
			t.Errorf("%q: exit %d with %d jobs: %s", c.line, r.code, len(p.hosts.broker.submitted)-before, r.err)
		}
		if c.missing != "" && (!strings.Contains(r.err, "starts "+c.missing+",") || !strings.Contains(r.err, "hint:")) {
			t.Errorf("%q: %s", c.line, r.err)
		}
	}
}
