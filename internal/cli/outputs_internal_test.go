package cli

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Each output has an address for the cloud's own tools, and each bucket the command that downloads from it.
func TestOutputsAreListedWithTheCommandThatDownloadsThem(t *testing.T) {
	task := func(name, output string) apitypes.TaskView { return apitypes.TaskView{Name: name, Output: output} }
	for _, c := range []struct {
		name  string
		tasks []apitypes.TaskView
		want  string
	}{
		{"here", []apitypes.TaskView{
			task("make", "file:///a%20s/objects/j-1/make/out/j-1.0.1/0/files/"), task("none", ""),
		}, `
outputs:   make  /a s/objects/j-1/make/out/j-1.0.1/0/files/
`},
		{"in two clouds, and of a job that this one reran", []apitypes.TaskView{
			task("make", "s3://b/j-1/make/out/j-1.0.1/0/files/"), task("a[0]", "gs://g/below/j-2/a~0/out/j-2.1.1/0/files/"),
			task("read", "gs://g/below/j-2/read/out/j-2.2.1/"),
		}, `
outputs:   make  s3://b/j-1/make/out/j-1.0.1/0/files/
           a[0]  gs://g/below/j-2/a~0/out/j-2.1.1/0/files/
           read  gs://g/below/j-2/read/out/j-2.2.1/
download:  aws s3 cp --recursive s3://b/j-1/ j-1/ --exclude '*/ckpt/*'
           gcloud storage cp --recursive gs://g/below/j-2 .
`},
		{"on Azure", []apitypes.TaskView{task("make", "azblob://work/j-1/make/out/j-1.0.1/0/files/")}, `
outputs:   make  https://acme.blob.core.windows.net/work/j-1/make/out/j-1.0.1/0/files/
download:  az storage blob download-batch --account-name acme --auth-mode login --source work --pattern 'j-1/*' ` +
			`--destination .
`},
		{"none", []apitypes.TaskView{task("none", "")}, "\n\n"},
	} {
		if got := "\n" + strings.Join(outputLines(c.tasks, "acme"), "\n") + "\n"; got != c.want {
			t.Errorf("%s:%s", c.name, got)
		}
	}
	many := make([]apitypes.TaskView, 100)
	for i := range many {
		many[i] = task("a", "s3://b/j/a/out/j.0.1/0/files/")
	}
	if lines := outputLines(many, ""); len(lines) != maxOutputs+2 || !strings.Contains(lines[maxOutputs], "92 tasks more") {
		t.Errorf("%q", lines)
	}
}
