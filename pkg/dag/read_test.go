package dag

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// testFiles are workflows in all forms: the package's own, and the public ones where they are.
func testFiles(t testing.TB) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{
		filepath.Join("testdata", "workflows", "*"),
		filepath.Join("..", "..", "..", "shared", "data", "workflows", "*", "*"),
	} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	return append(files, exampleFiles(t)...)
}

// smallTestFiles are those of a few hundred tasks at most, for tests that do much with each.
func smallTestFiles(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(testFiles(t), func(file string) bool {
		info, err := os.Stat(file)
		return err != nil || info.Size() > 10<<10
	})
}

// TestErrors reads the bad files in testdata/errors: each gets one error, which names file, line and
// field.
func TestErrors(t *testing.T) {
	datadriven.Walk(t, filepath.Join("testdata", "errors"), func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			j, err := Read(fileName(t, d), strings.NewReader(d.Input))
			if err == nil {
				d.Fatalf(t, "was read")
			}
			if j != nil {
				d.Fatalf(t, "an error, and a job")
			}
			var e *Error
			if !errors.As(err, &e) || e.File == "" || e.Reason == "" {
				d.Fatalf(t, "%#v is not a full *Error", err)
			}
			return err.Error() + "\n"
		})
	})
}

// TestRead reads the files in testdata/workflows and compares what it got of them, in the native form,
// with testdata/read.
func TestRead(t *testing.T) {
	datadriven.RunTest(t, filepath.Join("testdata", "read"), func(t *testing.T, d *datadriven.TestData) string {
		file := filepath.Join("testdata", "workflows", d.CmdArgs[0].Key)
		j, err := ReadFile(file)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if j.Format != Format(d.Cmd) {
			d.Fatalf(t, "%s was read as %s", file, j.Format)
		}
		native, err := Marshal(j)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		var b strings.Builder
		b.Write(native)
		for _, w := range j.Warnings {
			b.WriteString("# " + filepath.ToSlash(w) + "\n")
		}
		return b.String()
	})
}

// fileName is the argument of the command, which is the form.
func fileName(t *testing.T, d *datadriven.TestData) string {
	extension, ok := map[string]string{"native": ".yaml", "skypilot": ".yaml", "wfformat": ".json", "dax": ".xml"}[d.Cmd]
	if !ok {
		d.Fatalf(t, "unknown form %s", d.Cmd)
	}
	return "job" + extension
}

func TestEveryPublicWorkflowReads(t *testing.T) {
	const root = "../../../shared/data/workflows"
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no public workflows in ../shared/data/workflows")
	}
	forms := map[string]Format{"dax": DAX, "wfformat": WfFormat, "skypilot": SkyPilot}
	seen := map[Format]int{}
	for _, file := range testFiles(t) {
		form, ok := forms[filepath.Base(filepath.Dir(file))]
		if !ok {
			continue
		}
		j, err := ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		seen[form]++
		if j.Format != form {
			t.Errorf("%s was read as %s", file, j.Format)
		}
		if form == SkyPilot {
			continue
		}
		for i := range j.Tasks {
			if task := &j.Tasks[i]; !task.StandIn() || task.Time.Default != task.Recorded {
				t.Errorf("%s: task %s: recorded %v, time %v", file, task.Name, task.Recorded, task.Time.Default)
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("files read by form: %v", seen)
	}
}

// The published workflows state every dependency, so that files add none: neither those that are
// written twice, nor those whose sizes differ from task to task.
func TestDependenciesOfPublicWorkflows(t *testing.T) {
	for file, want := range map[string]struct{ tasks, edges int }{
		"dax/CyberShake_1000.xml.gz":                                       {1000, 1988}, // more dependencies than files say
		"dax/Inspiral_1000.xml.gz":                                         {1000, 1233}, // three files have several writers
		"dax/Montage_1000.xml.gz":                                          {1000, 2485},
		"dax/Sipht_100.xml.gz":                                             {97, 109}, // 51 files have several writers
		"wfformat/makeflow__bwa__bwa-chameleon-small-001.json.gz":          {104, 400},
		"wfformat/pegasus__montage__montage-chameleon-dss-05d-001.json.gz": {58, 114},
		"skypilot/pipeline_gcp.yaml":                                       {4, 3},
	} {
		j, err := ReadFile(filepath.Join("..", "..", "..", "shared", "data", "workflows", file))
		if errors.Is(err, fs.ErrNotExist) {
			t.Skip("no public workflows in ../shared/data/workflows")
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if len(j.Tasks) != want.tasks || len(j.Edges) != want.edges {
			t.Errorf("%s: %d tasks and %d edges, want %+v", file, len(j.Tasks), len(j.Edges), want)
		}
	}
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const minimal = "apiVersion: tradewind/v1\nname: m\ntasks:\n  a:\n    run: |\n      echo one\n      echo two\n"

func TestHowAFileIsStoredDoesNotMatter(t *testing.T) {
	want, err := Read("m.yaml", strings.NewReader(minimal))
	if err != nil {
		t.Fatal(err)
	}
	asJSON := `{"apiVersion":"tradewind/v1","name":"m","tasks":{"a":{"run":"echo one\necho two\n"}}}`
	for what, data := range map[string][]byte{
		"gzip":              gzipped(t, []byte(minimal)),
		"byte order mark":   []byte("\ufeff" + minimal),
		"carriage returns":  []byte(strings.ReplaceAll(minimal, "\n", "\r\n")),
		"all of them":       gzipped(t, []byte("\ufeff"+strings.ReplaceAll(minimal, "\n", "\r\n"))),
		"JSON":              []byte(asJSON),
		"document markers":  []byte("%YAML 1.2\n---\n" + minimal + "...\n"),
		"an empty document": []byte("---\n" + minimal + "---\n"),
	} {
		for _, name := range []string{"m.yaml", "m.json", "m.txt", "m"} {
			got, err := Read(name, bytes.NewReader(data))
			if err != nil {
				t.Errorf("%s in %s: %v", what, name, err)
				continue
			}
			if got.Tasks[0].Run != want.Tasks[0].Run || got.Name != "m" || got.Format != Native {
				t.Errorf("%s in %s: %+v", what, name, got)
			}
		}
	}
}

func TestFormIsToldByContent(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          Format
	}{
		{"w.yaml", `{"name":"w","schemaVersion":"1.5","workflow":{"specification":{"tasks":[{"id":"a"}]}}}`, WfFormat},
		{"w", `{"author":{"schemaVersion":0,"tasks":[]},"workflow":{"tasks":[{"id":"a"}]},"schemaVersion":"1.4"}`, WfFormat},
		{"w.json", `<adag><job id="a"/></adag>`, DAX},
		{"w.xml", "run: echo\n", SkyPilot},
		{"w.json", `{"run":"echo","name":"x"}`, ""}, // a name says JSON is WfFormat
		{"w.yaml", `{"run":"echo","name":"x"}`, SkyPilot},
		{"w", "name: chain\n---\nrun: a\n---\nrun: b\n", SkyPilot},
		{"w", minimal, Native},
	} {
		j, err := Read(c.name, strings.NewReader(c.content))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("%s: %s was read", c.name, c.content)
		case c.want != "" && err != nil:
			t.Errorf("%v: %s", err, c.content)
		case c.want != "" && j.Format != c.want:
			t.Errorf("%s is %s, want %s", c.content, j.Format, c.want)
		}
	}
}

func TestJobIsNamedAfterItsFile(t *testing.T) {
	const content = "apiVersion: tradewind/v1\ntasks: {a: {run: x}}\n"
	for name, want := range map[string]string{
		"dir/nightly.yaml": "nightly", "nightly.yaml.gz": "nightly", "my job.yml": "my-job", ".yaml": "yaml", "...": "job", "": "job",
		"v1.2.yaml": "v1.2", strings.Repeat("x", 300) + ".yaml": strings.Repeat("x", 128),
	} {
		j, err := Read(name, strings.NewReader(content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if j.Name != want {
			t.Errorf("%q: name %q, want %q", name, j.Name, want)
		}
	}
}

func TestUnreadableFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadFile(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	missing := filepath.Join(dir, "none.yaml")
	_, err := ReadFile(missing)
	if !errors.Is(err, fs.ErrNotExist) || err.Error() != missing+": cannot be read: no such file or directory" {
		t.Errorf("a missing file: %v", err)
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"nothing":            {nil, "x: the file is empty"},
		"white space":        {[]byte(" \n\t\n"), "x: the file is empty"},
		"comments":           {[]byte("# none\n"), "x: the file is empty"},
		"truncated gzip":     {gzipped(t, []byte(minimal))[:40], "x: cannot be read: unexpected EOF"},
		"a gzip header only": {[]byte{0x1f, 0x8b}, "x: cannot be read: gzip: unexpected EOF"},
		"gzip in gzip":       {gzipped(t, gzipped(t, []byte(minimal))), "x:1:2: the text is not UTF-8 (save it as UTF-8)"},
		"UTF-16":             {[]byte("\xff\xfea\x00"), "x:1: the text is UTF-16 (save it as UTF-8)"},
		"latin 1":            {[]byte("name: x\nrun: caf\xe9\n"), "x:2:9: the text is not UTF-8 (save it as UTF-8)"},
		"a binary":           {[]byte("\x7fELF\x02\x01\x01\x00"), ""},
	} {
		_, err := Read("x", bytes.NewReader(c.data))
		if err == nil || c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
}
