package skypilot_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

func TestWorkdirCanBeRepository(t *testing.T) {
	for name, body := range map[string]string{
		"sky":    "envs: {WHO: me}\nworkdir: {url: 'https://example.com/$WHO/x.git', ref: v1}\nrun: ls\n",
		"native": "apiVersion: tradewind/v1\nname: x\ntasks: {x: {run: ls, workdir: {url: 'https://example.com/me/x.git', ref: v1}}}\n",
	} {
		j, err := read.Job(name+".yaml", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		again, err := dag.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		if j, err = read.Job("again.yaml", strings.NewReader(string(again))); err != nil {
			t.Fatal(err)
		}
		r := j.Tasks[0].Repository
		if r == nil || *r != (dag.Repository{URL: "https://example.com/me/x.git", Ref: "v1"}) || len(j.Warnings) > 0 {
			t.Errorf("%s: %+v %q", name, r, j.Warnings)
		}
	}
	for workdir, says := range map[string]string{
		"{ref: main}": "url: is missing", "{url: '--upload-pack=x'}": "is not the URL", "{url: 'ext::sh -c x'}": "is not the URL",
		"{url: x, ref: -x}": "is not a branch", "{url: x, ref: a..b}": "is not a branch", "{uri: x}": "uri",
		"{url: 'http://[::1]/x'}": "", "{url: 'git@host:x/y.git', ref: feature/x}": "",
	} {
		_, err := read.Job("sky.yaml", strings.NewReader("workdir: "+workdir+"\nrun: ls\n"))
		var bad *dag.Error
		if (says == "") != (err == nil) || err != nil && (!errors.As(err, &bad) || bad.Line != 1 || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", workdir, err)
		}
	}
}
