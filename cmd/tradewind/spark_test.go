package main

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// words is the result of the example.
const words = "word,count\ntrade,2\nwest,1\nwind,2\n"

// TestSparkRunsLocally runs the example with the real Spark: on one machine, and as a cluster of two machines that run as
// processes here. Both write the same bytes.
func TestSparkRunsLocally(t *testing.T) {
	bin := sparktest.Bin(t, "../..")
	built := build(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/spark")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "words.yaml")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cluster := bytes.Replace(body, []byte("executors: 1-4"), []byte("executors: 2"), 1)
	if bytes.Equal(body, cluster) {
		t.Fatal("the example has no executors")
	}
	for name, text := range map[string][]byte{"one machine": body, "a cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			s := built.in(t)
			s.t, s.env = t, append(s.env, "PATH="+bin+":"+filepath.Dir(s.program)+":"+os.Getenv("PATH"))
			s.must("tradewind run " + file)
			if got := s.must("tradewind logs last show"); got != words {
				t.Errorf("got %q, want %q", got, words)
			}
		})
	}
}

// TestSparkRunsOnServicesOfAWS runs the example on the emulated EMR and EMR Serverless, from the shell. Spark is real. Both
// services write what a run on this computer writes, and nothing is left of them.
func TestSparkRunsOnServicesOfAWS(t *testing.T) {
	bin, jars := sparktest.Bin(t, "../.."), sparktest.Stores(t, "../..")
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	account, url, certificates := emulateServicesOfAWS(t, s, bin, jars)
	s.must("tradewind cloud add aws --services emr,emr-serverless --certificates " + certificates)
	stop := s.up("--clouds aws --agents " + buildAgent(t))
	for _, service := range []string{"emr", "emr-serverless"} {
		id := countWordsOn(t, s, service)
		used := objectsOf(t, url, id)
		for _, folder := range []string{"/service-code/", "/service-logs/"} {
			if !strings.Contains(used, folder) {
				t.Errorf("%s: nothing below %s:\n%s", service, folder, used)
			}
		}
		if log := s.must("tradewind logs " + id + " count"); !strings.Contains(log, "SparkContext") {
			t.Errorf("the log of the application on %s: %q", service, log)
		}
		s.must("tradewind rm --yes " + id)
		for end := time.Now().Add(2 * time.Minute); objectsOf(t, url, id) != ""; time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatalf("%s: left of the removed job:\n%s", service, objectsOf(t, url, id))
			}
		}
	}
	stop()
	if n := account.Left(); n > 0 {
		t.Errorf("%d places are left", n)
	}
	s.must("tradewind cloud remove aws") // which refuses while machines or places are left
}

// emulateServicesOfAWS starts an emulated AWS whose services run applications with the real Spark.
func emulateServicesOfAWS(t *testing.T, s *shell, bin, jars string) (account *emr.Cloud, url, certificates string) {
	t.Helper()
	account, err := emr.New(emulator.OwnMoto(t), func(ctx context.Context, args []string) sparkjob.Result {
		return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.S3(url)}.Run(ctx, args)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(account.Close)
	server := httptest.NewServer(account)
	t.Cleanup(server.Close)
	url = server.URL
	_, certificates = emulateAWS(t, s, url)
	return account, url, certificates
}

// TestTPCHIsEqualOnEMR runs the 22 queries of TPC-H at scale 0.1 on this computer and on the emulated EMR, with the same
// job file. All answers are equal. It takes minutes, so it runs only if the generator of the data is installed.
func TestTPCHIsEqualOnEMR(t *testing.T) {
	generator, err := exec.LookPath("tpchgen-cli")
	if err != nil {
		t.Skip("tpchgen-cli is missing: `pip install tpchgen-cli`")
	}
	bin, jars := sparktest.Bin(t, "../.."), sparktest.Stores(t, "../..")
	built := build(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/tpch")); err != nil {
		t.Fatal(err)
	}
	//nolint:gosec // the generator
	data := exec.CommandContext(t.Context(), generator, "parquet", "-s", "0.1", "--output-dir", filepath.Join(dir, "data"))
	if out, err := data.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "tpch.yaml")
	local := built.in(t)
	local.env = append(local.env, "PATH="+bin+":"+filepath.Dir(local.program)+":"+os.Getenv("PATH"))
	begin := time.Now()
	local.must("tradewind run " + file)
	want := local.must("tradewind logs last show")
	t.Logf("on this computer: %s", time.Since(begin).Round(time.Second))
	if n := strings.Count("\n"+want, "\nq"); n != 22 {
		t.Fatalf("%d of 22 answers:\n%s", n, want)
	}
	s := built.in(t)
	_, _, certificates := emulateServicesOfAWS(t, s, bin, jars)
	s.must("tradewind cloud add aws --services emr --certificates " + certificates)
	stop := s.up("--clouds aws --agents " + buildAgent(t))
	body, err := os.ReadFile(file) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.Replace(body, []byte(", {cpus: 4, memory: 16}"), nil, 1)
	if err := os.WriteFile(file, body, 0o600); err != nil {
		t.Fatal(err)
	}
	begin = time.Now()
	id := submitAndWait(t, s, file)
	t.Logf("on EMR: %s", time.Since(begin).Round(time.Second))
	if got := s.must("tradewind logs " + id + " show"); got != want {
		t.Errorf("other answers on EMR:\n%s\nwant\n%s", got, want)
	}
	stop()
}

// TestSparkRunsOnServicesOfGoogle runs the example on the emulated Dataproc, as a cluster and as a batch, from the shell.
// Spark is real. Both write what a run on this computer writes, and nothing is left of them.
func TestSparkRunsOnServicesOfGoogle(t *testing.T) {
	bin, jars := sparktest.Bin(t, "../.."), sparktest.Stores(t, "../..")
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	google, store := emulateGoogleWithSpark(t, s, func(buckets string) sparkjob.Runner {
		return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.Storage(buckets, "demo")}.Run
	}, "dataproc", "dataproc-serverless")
	stop := s.up("--clouds gcp --agents " + buildAgent(t) +
		" --catalog " + catalogOf(t, "gcp.csv", "n2-standard-4,4,16,,,us-central1,us-central1-a,0.15,0.05"))
	for service, requests := range map[string][]string{
		"dataproc":            {"regions.clusters.create", "regions.jobs.submit"},
		"dataproc-serverless": {"locations.batches.create"},
	} {
		id := countWordsOn(t, s, service)
		for _, r := range requests {
			if n := len(google.Requests("dataproc.projects." + r)); n != 1 {
				t.Errorf("%s: %d requests %s", service, n, r)
			}
		}
		if log := s.must("tradewind logs " + id + " count"); !strings.Contains(log, "SparkContext") {
			t.Errorf("the log of the application on %s: %q", service, log)
		}
		s.must("tradewind rm --yes " + id)
		left := func() (keys string) {
			for o, err := range grant.Objects(t.Context(), store, "gs://demo-work") {
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(o.URI, "/"+id+"/") {
					keys += o.URI + "\n"
				}
			}
			return keys
		}
		for end := time.Now().Add(2 * time.Minute); left() != ""; time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatalf("%s: left of the removed job:\n%s", service, left())
			}
		}
	}
	stop()
	if _, clusters, batches, _ := google.Spark(); clusters+batches > 0 {
		t.Errorf("%d clusters and %d batches are left", clusters, batches)
	}
	if left := google.Leftovers(); len(left) > 0 {
		t.Errorf("left on Google: %v", left)
	}
	if faults := google.Faults(); len(faults) > 0 {
		t.Errorf("not as Google describes its API: %v", faults)
	}
}

// submitAndWait submits a job file to the broker of s and returns the job when it has succeeded.
func submitAndWait(t *testing.T, s *shell, file string) (id string) {
	t.Helper()
	id = strings.TrimSpace(s.must("tradewind submit " + file))
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 {
		t.Fatalf("%s: exit %d\n%s\n%s", file, code, errs, s.must("tradewind explain "+id))
	}
	return id
}

// countWordsOn runs the example on a service. Its result must be that of a run on this computer.
func countWordsOn(t *testing.T, s *shell, service string) (id string) {
	t.Helper()
	id = submitAndWait(t, s, wordsOn(t, "{service: "+service+"}"))
	if got := s.must("tradewind logs " + id + " show"); got != words {
		t.Errorf("%s: got %q, want %q", service, got, words)
	}
	for _, shown := range []string{"status", "explain"} {
		if out := s.must("tradewind " + shown + " " + id); !strings.Contains(out, service) {
			t.Errorf("%s does not name %s:\n%s", shown, service, out)
		}
	}
	return id
}

// objectsOf lists the objects of a job in the account's buckets, a line each.
func objectsOf(t *testing.T, url, id string) (keys string) {
	t.Helper()
	client := s3.NewFromConfig(emulator.Config(url), func(o *s3.Options) { o.UsePathStyle = true })
	buckets, err := client.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range buckets.Buckets {
		list, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: b.Name, Prefix: aws.String(id + "/")})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Contents {
			keys += *o.Key + "\n"
		}
	}
	return keys
}

// wordsOn writes the example to a new folder, with other alternatives for its Spark task, and returns its job file.
func wordsOn(t *testing.T, alternatives string) (file string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/spark")); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "words.yaml")
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(body), "      anyOf:\n")
	_, after, found := strings.Cut(rest, "    time: 5m\n")
	if !found {
		t.Fatal("the example has no alternatives")
	}
	text := before + "      anyOf: [" + alternatives + "]\n    time: 5m\n" + after
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
