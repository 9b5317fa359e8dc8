package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/cloudkit/kits"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// bucketOf is a bucket of a fake-gcs-server.
type bucketOf struct {
	*testing.T
	server, name string
}

func (b bucketOf) put(key, text string) (generation string) {
	b.Helper()
	at := b.server + "/upload/storage/v1/b/" + b.name + "/o?uploadType=media&name=" + url.QueryEscape(key)
	resp, err := http.Post(at, "text/plain", strings.NewReader(text))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var o struct{ Generation string }
	if err := json.NewDecoder(resp.Body).Decode(&o); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return o.Generation
}

func (b bucketOf) get(key string) string {
	b.Helper()
	resp, err := http.Get(b.server + "/storage/v1/b/" + b.name + "/o/" + url.PathEscape(key) + "?alt=media")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

const dropped = `apiVersion: tradewind/v1
name: dropped
tasks:
  one: {run: 'echo "on $TRADEWIND_MACHINE"', time: 5m, resources: {cpus: 1+}}
`

// testDAGBucket puts files into a Google bucket, which sends Pub/Sub notifications. The broker must pull them, read
// the file and buy machines. A file that is not a job must get an error file next to it. Duplicate, late and outdated
// notifications must create only one job.
func testDAGBucket(t *testing.T, s *shell) {
	google, err := gce.New(gce.Config{Dir: t.TempDir(), Price: func(gce.Bill) float64 { return 0.02 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(google.Close)
	bucket := bucketOf{t, servers.FakeGCSWithPubSub(t, google.PubSub()), "acme-jobs"}
	google.KeepBuckets(bucket.server)
	web := httptest.NewServer(google)
	t.Cleanup(web.Close)

	state := s.stateFolder()
	name, err := host.DeploymentOf(state)
	if err != nil {
		t.Fatal(err)
	}
	all := kits.All()
	kit := all[slices.Index(cloudkit.Names(all), "gcp")]
	made := func() (settings cloudkit.Settings, steps []string) {
		t.Helper()
		setup, err := kit.Setup(t.Context(), cloudkit.Request{
			Settings: cloudkit.Settings{Project: "demo", Regions: []string{"us-central1"}, Endpoint: web.URL, Storage: bucket.server,
				Member: "user:ada@example.com", DAGs: "gs://acme-jobs/dags"},
			Deployment: name, Lookup: os.Getenv,
		})
		if err != nil {
			t.Fatal(err)
		}
		settings, err = setup.Make(t.Context(), func(step string) {
			if strings.HasSuffix(step, ": made") {
				steps = append(steps, step)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return settings, steps
	}
	settings, steps := made()
	if settings.Pull != "tradewind-"+name || !slices.Contains(steps, "notification of gs://acme-jobs/dags/: made") {
		t.Errorf("%+v\n%s", settings, strings.Join(steps, "\n"))
	}
	if _, again := made(); len(again) > 0 {
		t.Errorf("a second time made %q", again)
	}
	settings.PubSub = google.PubSub()
	settings.ServiceAccount = "" // without proofs of identity, because only Google has the keys for them
	if err := cloudkit.Save(state, map[string]cloudkit.Settings{"gcp": settings}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "gcp.csv"), []byte(trainInferCatalog["gcp.csv"]), 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	stop := s.up("--clouds gcp --catalog " + dir + " --agents " + buildAgent(t) + " --addr " + address + " --public-url http://" + address)

	type job struct{ ID, Name, State string }
	jobs := func() (list []job) {
		t.Helper()
		var out struct{ Jobs []job }
		if err := json.Unmarshal([]byte(s.must("tradewind status -o json")), &out); err != nil {
			t.Fatal(err)
		}
		return out.Jobs
	}
	named := func(name string) (n int, last job) {
		for _, j := range jobs() {
			if j.Name == name {
				n, last = n+1, j
			}
		}
		return n, last
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s: %+v", what, jobs())
			}
		}
	}
	bucket.put("elsewhere/dropped.yaml", strings.Replace(dropped, "dropped", "elsewhere", 1))
	bucket.put("dags/team/", "")
	bucket.put("dags/broken.yaml", strings.Replace(dropped, "run:", "rum:", 1))
	old := bucket.put("dags/team/dropped.yaml", strings.Replace(dropped, "name: dropped", "name: old", 1))
	await("the first writing", func() bool { n, _ := named("old"); return n == 1 })
	bucket.put("dags/team/dropped.yaml", dropped)
	await("a job of the bucket", func() bool { n, _ := named("dropped"); return n == 1 })
	await("a remark", func() bool { return bucket.get("dags/broken.yaml.error.txt") != "" })
	if remark := bucket.get("dags/broken.yaml.error.txt"); !strings.Contains(remark, "broken.yaml:4") || !strings.Contains(remark, `did you mean "run"`) {
		t.Errorf("remark %q", remark)
	}
	_, j := named("dropped")
	if _, errs, code := s.run("tradewind status -w " + j.ID); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain "+j.ID))
	}
	if log := s.must("tradewind logs " + j.ID + " one"); !strings.HasPrefix(log, "on ") {
		t.Errorf("log %q", log)
	}
	// a duplicate, a late and an outdated notification
	topic := "tradewind-" + name
	for _, generation := range []string{old, "17"} {
		body, err := json.Marshal(map[string]string{"name": "dags/team/dropped.yaml", "bucket": "acme-jobs", "generation": generation,
			"size": "9", "md5Hash": "another" + generation})
		if err != nil {
			t.Fatal(err)
		}
		google.Publish(topic, body, map[string]string{"eventType": "OBJECT_FINALIZE", "payloadFormat": "JSON_API_V1"})
	}
	google.Publish(topic, []byte("nonsense"), map[string]string{"eventType": "OBJECT_FINALIZE"})
	bucket.put("dags/team/dropped.yaml", dropped) // a file with the same content is the same job
	bucket.put("dags/last.yaml", strings.Replace(dropped, "name: dropped", "name: last", 1))
	await("a file after all of that", func() bool { n, _ := named("last"); return n == 1 })
	_, last := named("last")
	if _, errs, code := s.run("tradewind status -w " + last.ID); code != 0 {
		t.Errorf("exit %d\n%s", code, errs)
	}
	for name, want := range map[string]int{"old": 1, "dropped": 1, "elsewhere": 0} {
		if n, _ := named(name); n != want {
			t.Errorf("%d jobs of %s", n, name)
		}
	}
	// Existing capacity of the project must be found, printed, and used first.
	google.Reserve("us-central1-a", "team", "n2-standard-2", 1, true)
	s.must("tradewind catalog refresh")
	if said := s.must("tradewind catalog search --instance-type n2-standard-2 --region us-central1 --limit 1"); !strings.Contains(said, "reserved: 1") {
		t.Errorf("after refresh:\n%s", said)
	}
	file := filepath.Join(t.TempDir(), "here.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(dropped, "name: dropped", "name: here", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := s.must("tradewind plan " + file); !strings.Contains(said, "reserved") {
		t.Errorf("plan:\n%s", said)
	}
	// The same holds for the project's commitments, which machines of several types share.
	google.Commit("us-central1", "year", "GENERAL_PURPOSE_E2", 12, 48, time.Now().Add(1000*time.Hour))
	s.must("tradewind catalog refresh")
	if said := s.must("tradewind catalog search --instance-type e2-standard-4 --region us-central1 --limit 1"); !strings.Contains(said, "committed: 3") {
		t.Errorf("after refresh:\n%s", said)
	}
	wide := strings.Replace(strings.Replace(dropped, "name: dropped", "name: wide", 1), "cpus: 1+", "cpus: 4+", 1)
	if err := os.WriteFile(file, []byte(wide), 0o600); err != nil {
		t.Fatal(err)
	}
	said := s.must("tradewind plan " + file)
	if !strings.Contains(said, "committed") || !strings.Contains(said, "reserved@cud-e2-us-central1") {
		t.Errorf("plan:\n%s", said)
	}
	if said := s.must("tradewind plan -o json " + file); !strings.Contains(said, `"reservation": "cud-e2-us-central1"`) {
		t.Errorf("plan:\n%s", said)
	}
	stop()
	if left := google.Leftovers(); len(left) > 0 {
		t.Errorf("left on Google: %v", left)
	}
	s.must("tradewind cloud remove gcp")
	for what := range google.Created() {
		if !strings.HasPrefix(what, "service ") {
			t.Errorf("%s is left", what)
		}
	}
	for _, f := range google.Faults() {
		t.Errorf("not as in Google's documentation: %s", f)
	}
	if bucket.get("dags/broken.yaml.error.txt.error.txt") != "" {
		t.Error("a remark was taken for a job")
	}
	if bucket.get("dags/last.yaml") == "" {
		t.Error("the user's files are gone")
	}
}
