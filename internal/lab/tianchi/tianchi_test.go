package tianchi_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/tradewind-broker/tradewind/internal/lab/tianchi"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

const contest = "../../../../shared/data/cluster-traces/alibaba-tianchi-2018"

func curve(value string) string { return strings.Repeat(value+"|", tianchi.Points-1) + value }

// set returns a small data set. replace lists files and their other content.
func set(replace ...string) fstest.MapFS {
	files := map[string]string{
		"app_resources.csv": "web," + curve("1.5") + "," + strings.Replace(curve("2"), "2|2", "2|4.25", 1) + ",10,0,0,0\n" +
			"db," + curve("0.1") + "," + curve("8") + ",100.5,1,0,1\n",
		"machine_resources.csv": "m1,4,16,200,1,1,1\nm2,4,16,200,1,1,1\n",
		"instance_deploy.csv":   "i1,web,m2\ni2,db,\ni3,web,\n",
		"app_interference.csv":  "web,web,1\ndb,web,0\n",
	}
	for i := 0; i < len(replace); i += 2 {
		files[replace[i]] = replace[i+1]
	}
	fs := fstest.MapFS{}
	for name, body := range files {
		fs[name] = &fstest.MapFile{Data: []byte(body)}
	}
	return fs
}

func TestRead(t *testing.T) {
	p, err := tianchi.Read(set())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	// All apps have constant CPU, so it is stored as one point.
	if p.Resources[0].Points != 1 || p.Resources[1].Points != tianchi.Points {
		t.Errorf("resources: %v", p.Resources)
	}
	web := p.Apps[0]
	if web.Name != "web" || web.Demand[0] != placement.Unit*3/2 || web.Demand[2] != placement.Unit*17/4 || web.Demand[3] != 2*placement.Unit {
		t.Errorf("web: %v", web)
	}
	want := []placement.Instance{{Name: "i1", App: 0, Machine: 1}, {Name: "i2", App: 1, Machine: -1}, {Name: "i3", App: 0, Machine: -1}}
	if !reflect.DeepEqual(p.Instances, want) {
		t.Errorf("instances: %v", p.Instances)
	}
	// "k in addition to the first one" means k+1 in total.
	if !reflect.DeepEqual(p.Rules, []placement.Rule{{A: 0, B: 0, Max: 2}, {A: 1, B: 0, Max: 0}}) {
		t.Errorf("rules: %v", p.Rules)
	}
}

func TestReadErrorsNameFileRowAndField(t *testing.T) {
	good := "web," + curve("1") + "," + curve("1") + ",1,0,0,0\n"
	for _, c := range []struct{ file, body, want string }{
		{"app_resources.csv", good + "db\n", "app_resources.csv: row 2: 1 fields, not 7 (app, cpu, memory, disk, P, M, PM)"},
		{"app_resources.csv", good + good, "app_resources.csv: row 2: app: web is listed twice"},
		{"app_resources.csv", good + strings.Replace(good, "web,1|", "db,1|x", 1), "app_resources.csv: row 2: cpu: point 2: \"x1\" is not a number from 0 to 1000000"},
		{"app_resources.csv", good + strings.Replace(good, "web,1|", "db,", 1), "app_resources.csv: row 2: cpu: 97 points, not 98"},
		{"app_resources.csv", strings.Replace(good, ",1,0,0,0", ",-1,0,0,0", 1), "app_resources.csv: row 1: disk: \"-1\" is not a number from 0 to 1000000"},
		{"app_resources.csv", strings.Replace(good, ",1,0,0,0", ",1,0,NaN,0", 1), "app_resources.csv: row 1: M: \"NaN\" is not a number from 0 to 1000000"},
		{"app_resources.csv", strings.Replace(good, ",1,0,0,0", ",1,0,0,", 1), "app_resources.csv: row 1: PM: \"\" is not a number from 0 to 1000000"},
		{"app_resources.csv", strings.Replace(good, "web", "", 1), "app_resources.csv: row 1: app: \"\" is not a name"},
		{"machine_resources.csv", "machine,cpu,memory,disk,P,M,PM\n", "machine_resources.csv: row 1: cpu: \"cpu\" is not a number from 0 to 1000000"},
		{"machine_resources.csv", "m1,1,1,1,1,1,1\nm2,1,1e99,1,1,1,1\n", "machine_resources.csv: row 2: memory: \"1e99\" is not a number from 0 to 1000000"},
		{"machine_resources.csv", "m1,1,1,1,1,1,1\n\nm2,1,1,1,1,1,1\n", "machine_resources.csv: row 2: 1 fields, not 7 (machine, cpu, memory, disk, P, M, PM)"},
		{"instance_deploy.csv", "i1,web,m1\ni1,web,\n", "instance_deploy.csv: row 2: instance: i1 is listed twice"},
		{"instance_deploy.csv", "i1,wbe,\n", "instance_deploy.csv: row 1: app: \"wbe\" is not in app_resources.csv"},
		{"instance_deploy.csv", "i1,web,m9\n", "instance_deploy.csv: row 1: machine: \"m9\" is not in machine_resources.csv"},
		{"app_interference.csv", "web,db,0\nweb,x,0\n", "app_interference.csv: row 2: app B: \"x\" is not in app_resources.csv"},
		{"app_interference.csv", "web,db,1.5\n", "app_interference.csv: row 1: k: \"1.5\" is not a whole number from 0 to 1073741824"},
		{"app_interference.csv", "web,db,-1\n", "app_interference.csv: row 1: k: \"-1\" is not a whole number from 0 to 1073741824"},
		{"app_priority.csv", "web,1\nweb,2\n", "app_priority.csv: row 2: app: web is listed twice"},
		{"app_priority.csv", "web,high\n", "app_priority.csv: row 1: priority: \"high\" is not a whole number from 0 to 1048576"},
		{"other_app_interference.csv", "", "other_app_interference.csv: the folder also has app_interference.csv; it must have only one app_interference file"},
	} {
		_, err := tianchi.Read(set(c.file, c.body))
		if err == nil || err.Error() != c.want || !errors.Is(err, tianchi.ErrData) {
			t.Errorf("%s: got %v, want %s", c.file, err, c.want)
		}
	}
	missing := set()
	delete(missing, "instance_deploy.csv")
	if _, err := tianchi.Read(missing); !errors.Is(err, tianchi.ErrData) || !strings.Contains(err.Error(), "instance_deploy") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestNumbersAreExact(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1_000_000_000, "0.500000": 500_000_000, ".5": 500_000_000, "5.": 5_000_000_000, "0.1": 100_000_000,
		"92.123456789": 92_123_456_789, "0.3333333333333333": 333_333_333, "1e-3": 1_000_000, "1000000": 1_000_000_000_000_000,
		"007": 7_000_000_000, "0.0000000009": 1, "2.5E2": 250_000_000_000,
	} {
		p, err := tianchi.Read(set("machine_resources.csv", "m1,"+s+",1,1,1,1,1\nm2,1,1,1,1,1,1\n"))
		if err != nil || p.Shapes[0].Capacity[0] != want {
			t.Errorf("%s: %v, want %d", s, err, want)
		}
	}
	for _, s := range []string{"", ".", "-0.1", "1_0", "0x10", "Inf", "1e7", "1000000.1", "1.2.3", " 1"} {
		if _, err := tianchi.Read(set("machine_resources.csv", "m1,"+s+",1,1,1,1,1\nm2,1,1,1,1,1,1\n")); err == nil {
			t.Errorf("%q was accepted", s)
		}
	}
}

func TestAssignments(t *testing.T) {
	p, err := tianchi.Read(set())
	if err != nil {
		t.Fatal(err)
	}
	a, err := tianchi.ReadAssignment("a.csv", strings.NewReader("i3,m1\r\ni1,m2\ni2,\n"), p)
	if err != nil || !reflect.DeepEqual(a, placement.Assignment{1, -1, 0}) {
		t.Fatalf("%v, %v", a, err)
	}
	var out bytes.Buffer
	if err := tianchi.WriteAssignment(&out, p, a); err != nil || out.String() != "i1,m2\ni3,m1\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	for body, want := range map[string]string{
		"i1,m1\ni1,m2\n": "a.csv: row 2: instance: i1 is listed twice",
		"i9,m1\n":        "a.csv: row 1: instance: \"i9\" is not in the data set",
		"i1,m9\n":        "a.csv: row 1: machine: \"m9\" is not in the data set",
		"i1\n":           "a.csv: row 1: 1 fields, not 2 (instance, machine)",
	} {
		if _, err := tianchi.ReadAssignment("a.csv", strings.NewReader(body), p); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", body, err, want)
		}
	}
}

// files keeps the files that Write writes.
type files map[string]*bytes.Buffer

type file struct{ *bytes.Buffer }

func (file) Close() error { return nil }

func (f files) create(name string) (io.WriteCloser, error) {
	f[name] = &bytes.Buffer{}
	return file{f[name]}, nil
}

func (f files) fs() fstest.MapFS {
	fs := fstest.MapFS{}
	for name, body := range f {
		fs[name] = &fstest.MapFile{Data: body.Bytes()}
	}
	return fs
}

func TestWriteRoundTrip(t *testing.T) {
	p, err := tianchi.Read(set("app_priority.csv", "db,3\n"))
	if err != nil {
		t.Fatal(err)
	}
	generated, err := placement.Generate(placement.Setting{Machines: 20, Containers: 100, Apps: 30, AntiAffinity: 0.7, Priority: 0.2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*placement.Problem{p, generated} {
		written := files{}
		if err := tianchi.Write(written.create, p); err != nil {
			t.Fatal(err)
		}
		again, err := tianchi.Read(written.fs())
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again.Instances, p.Instances) || !reflect.DeepEqual(again.Rules, p.Rules) || len(again.Machines) != len(p.Machines) ||
			placement.LowerBound(again) != placement.LowerBound(p) {
			t.Errorf("read again: %+v", again)
		}
		for i := range p.Apps {
			if p.Apps[i].Priority != again.Apps[i].Priority || p.Apps[i].Demand[1] != again.Apps[i].Demand[1] {
				t.Errorf("app %+v became %+v", p.Apps[i], again.Apps[i])
			}
		}
	}
	odd := &placement.Problem{Resources: []placement.Resource{{Name: "gpu", Points: 1}}}
	if err := tianchi.Write(files{}.create, odd); !errors.Is(err, tianchi.ErrData) {
		t.Errorf("a resource that the format does not have: %v", err)
	}
}

func TestReadContestData(t *testing.T) {
	if _, err := os.Stat(contest); err != nil {
		t.Skip("the contest's data set is missing: ", err)
	}
	p, err := tianchi.Read(os.DirFS(contest))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(p.Instances) != 68_224 || len(p.Apps) != 9_338 || len(p.Machines) != 6_000 || len(p.Rules) != 33_416 || len(p.Shapes) != 2 {
		t.Errorf("%d instances, %d apps, %d machines, %d rules, %d sizes", len(p.Instances), len(p.Apps), len(p.Machines), len(p.Rules), len(p.Shapes))
	}
	if got := placement.LowerBound(p); got != 2229 {
		t.Errorf("lower bound %d, not 2229", got)
	}
	r, err := placement.Verify(p, p.Deployed())
	if err != nil || r.Placed != 61_254 || r.Machines != 4_040 || len(r.Violations) != 0 {
		t.Errorf("as deployed: %+v, %v", r, err)
	}
}

func FuzzRead(f *testing.F) {
	for _, m := range []string{"m1,4,16,200,1,1,1\n", "m1,4e0,16,200,1,1,1", "m1,,16\n", "\x1f\x8b\x08\x00", "m1,4,16,200,1,1,99999999999999999999\r\n"} {
		f.Add(m, "i1,web,m1\n", "web,web,1\n")
	}
	f.Fuzz(func(t *testing.T, machines, instances, rules string) {
		p, err := tianchi.Read(set("machine_resources.csv", machines, "instance_deploy.csv", instances, "app_interference.csv", rules))
		if err != nil {
			if !errors.Is(err, tianchi.ErrData) {
				t.Fatalf("not an Error: %v", err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		if _, err := placement.Verify(p, p.Deployed()); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReadApps(f *testing.F) {
	f.Add("1.5", "2", "3")
	f.Add("1e-9", "x", "")
	f.Fuzz(func(t *testing.T, cpu, memory, disk string) {
		p, err := tianchi.Read(set("app_resources.csv", "web,"+curve(cpu)+","+curve(memory)+","+disk+",0,0,0\ndb,"+curve("1")+","+curve("1")+",1,0,0,0\n"))
		if err != nil {
			if !errors.Is(err, tianchi.ErrData) {
				t.Fatalf("not an Error: %v", err)
			}
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReadAssignment(f *testing.F) {
	f.Add("i1,m1\ni2,m2\n")
	f.Add("i1,\r\ni1")
	f.Fuzz(func(t *testing.T, body string) {
		p, err := tianchi.Read(set())
		if err != nil {
			t.Fatal(err)
		}
		a, err := tianchi.ReadAssignment("a.csv", strings.NewReader(body), p)
		if err != nil {
			if !errors.Is(err, tianchi.ErrData) {
				t.Fatalf("not an Error: %v", err)
			}
			return
		}
		if _, err := placement.Verify(p, a); err != nil {
			t.Fatal(err)
		}
	})
}
