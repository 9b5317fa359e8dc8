package cli

import (
	"os"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

func TestCommandLineIsQuotedForShell(t *testing.T) {
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
