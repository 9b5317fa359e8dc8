package main

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"flag"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/internal/emulator/blob"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/gcs"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/grant/azgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// laptop is a job whose tasks exchange data, write logs, read a local file, and share machines.
const laptop = `apiVersion: tradewind/v1
name: laptop
tasks:
  make:
    run: 'cat words.txt; seq 1 10 >"$TRADEWIND_OUTPUT/numbers.txt"'
    inputs: [{uri: words.txt, path: words.txt}]
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 5m
  read:
    after: [make]
    array: 3
    run: 'echo "$TRADEWIND_ARRAY_INDEX reads $(wc -l <"$TRADEWIND_INPUTS/make/numbers.txt")"'
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 5m
`

// waiting is a job whose task waits for a file, and adds a line to a file at each start.
const waiting = `apiVersion: tradewind/v1
name: waiting
tasks:
  wait:
    run: 'echo started >>MARKS/starts; while [ ! -e MARKS/go ]; do sleep 0.1; done; echo done'
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 10m
`

// writeJob writes a job file and a local input next to it.
func writeJob(t *testing.T, body string) (file string) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "job.yaml")
	for name, text := range map[string]string{"job.yaml": body, "words.txt": "words of the laptop\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// runLaptop runs the jobs in a cloud for which the shell has credentials.
func runLaptop(t *testing.T, s *shell, cloud, flags string) {
	flags += " --agents " + buildAgent(t)
	run := " --yes --on " + cloud + flags
	file := writeJob(t, laptop)
	out, errs, code := s.run("tradewind run " + file + run)
	if code != 0 {
		t.Fatalf("exit %d\n%s%s\n%s", code, out, errs, s.must("tradewind explain last"))
	}
	if strings.Contains(out, "SIMULATED") || !strings.Contains(out, "succeeded:") {
		t.Errorf("run printed\n%s", out)
	}
	if !regexp.MustCompile(`(?s)outputs:   make +\S+/make/out/\S+/0/files/\n.*download:  .*/laptop-\w+`).MatchString(out) {
		t.Errorf("run printed no outputs of make:\n%s", out)
	}
	if log := s.must("tradewind logs last make"); !strings.Contains(log, "words of the laptop") {
		t.Errorf("log of make: %q", log)
	}
	if log := s.must("tradewind logs last 'read[2]'"); !strings.Contains(log, "2 reads 10") {
		t.Errorf("log of read[2]: %q", log)
	}

	marks := t.TempDir()
	file = writeJob(t, strings.ReplaceAll(waiting, "MARKS", marks))
	broker := s.command("tradewind run " + file + run + " --away 5m")
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, filepath.Join(marks, "starts"))
	if _, errs, code := s.run("tradewind exec last wait -- true"); code == 0 || !strings.Contains(errs, "deploy") {
		t.Errorf("exec: exit %d\n%s", code, errs)
	}
	_ = broker.Process.Signal(syscall.SIGKILL)
	_ = broker.Wait()
	if err := os.WriteFile(filepath.Join(marks, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // the task ends while no broker runs
	stop := s.up("--clouds " + cloud + flags)
	if _, errs, code := s.run("tradewind status -w last"); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain last"))
	}
	if log := s.must("tradewind logs last wait"); !strings.Contains(log, "done") {
		t.Errorf("log of wait: %q", log)
	}
	starts, err := os.ReadFile(filepath.Join(marks, "starts"))
	if err != nil || string(starts) != "started\n" {
		t.Errorf("the task was started again: %q, %v", starts, err)
	}
	stop()
}

// waitFor waits for a file that a task writes.
func waitFor(t *testing.T, s *shell, file string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if t.Context().Err() != nil || time.Now().After(deadline) {
			t.Fatalf("it does not run\n%s", s.must("tradewind explain last"))
		}
	}
}

// rehearseLaptop is set by make rehearse-laptop. make test runs only the test with AWS, because each of these tests
// takes minutes.
var rehearseLaptop = flag.Bool("laptop", false, "rehearse jobs from a laptop on all clouds, and a laptop that is away")

func rehearsedLaptop(t *testing.T) {
	t.Helper()
	if !*rehearseLaptop {
		t.Skip("make rehearse-laptop runs it")
	}
}

// TestLaptopOnAWS runs jobs on an emulated AWS. The broker has no address, and is killed in between.
func TestLaptopOnAWS(t *testing.T) {
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	endpoint := emulator.OwnMoto(t)
	h, certificates := emulateAWS(t, s, endpoint)
	if _, errs, code := s.run("tradewind up --clouds aws --public-url https://b.example --agents " + t.TempDir()); code != 2 ||
		!strings.Contains(errs, "make agent") {
		t.Errorf("without an agent: exit %d\n%s", code, errs)
	}
	added := s.must("tradewind cloud add aws --certificates " + certificates + " 2>&1")
	if strings.Contains(added, "store") {
		t.Errorf("cloud add created a bucket:\n%s", added)
	}
	runLaptop(t, s, "aws", "")
	h.noneLeft(t.Context())

	buckets := s3.NewFromConfig(emulator.Config(endpoint), func(o *s3.Options) { o.UsePathStyle = true })
	list, err := buckets.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil || len(list.Buckets) != 1 {
		t.Fatalf("%d buckets, %v", len(list.Buckets), err)
	}
	all, err := buckets.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: list.Buckets[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all.Contents {
		if strings.HasPrefix(aws.ToString(o.Key), "mail/") {
			t.Errorf("a message is left: %s", aws.ToString(o.Key))
		}
	}
	if out := s.must("tradewind cloud remove aws 2>&1"); !strings.Contains(out, "kept, because it has outputs of jobs") {
		t.Errorf("cloud remove printed\n%s", out)
	}
}

// saved writes settings of a cloud, with the addresses of its emulators, into the shell's state folder.
func saved(t *testing.T, s *shell, cloud string, settings cloudkit.Settings) {
	t.Helper()
	if err := cloudkit.Save(s.state, map[string]cloudkit.Settings{cloud: settings}); err != nil {
		t.Fatal(err)
	}
}

// catalogOf writes a catalogue with one offer.
func catalogOf(t *testing.T, name, offer string) (folder string) {
	t.Helper()
	const columns = "InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice\n"
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(columns+offer+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// emptyOfMessages fails if a bucket has messages.
func emptyOfMessages(t *testing.T, store grant.Store, bucket string) {
	t.Helper()
	page, err := store.List(t.Context(), bucket+"/mail/", "")
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Objects) > 0 {
		t.Errorf("%d messages are left in %s, such as %s", len(page.Objects), bucket, page.Objects[0].URI)
	}
}

// TestLaptopOnGoogle runs jobs on an emulated Google Cloud. IAM signs the URLs. Machines prove their identity for the
// broker's name, although nothing answers at that name.
func TestLaptopOnGoogle(t *testing.T) {
	rehearsedLaptop(t)
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	google, store := emulateGoogle(t, s)
	runLaptop(t, s, "gcp", " --catalog "+catalogOf(t, "gcp.csv", "n2-standard-4,4,16,,,us-central1,us-central1-a,0.15,0.05"))
	if left := google.Leftovers(); len(left) > 0 {
		t.Errorf("left on Google: %v", left)
	}
	emptyOfMessages(t, store, "gs://demo-work")
}

// emulateGoogle starts an emulated Google Cloud with a bucket, and writes its settings into the shell's state folder. It
// returns the bucket's store with the owner's rights.
func emulateGoogle(t *testing.T, s *shell) (*gce.Cloud, grant.Store) {
	t.Helper()
	return emulateGoogleWithSpark(t, s, nil)
}

// emulateGoogleWithSpark does the same as emulateGoogle, with managed services. spark returns a runner of their
// applications for the address of the buckets.
func emulateGoogleWithSpark(t *testing.T, s *shell, spark func(buckets string) sparkjob.Runner,
	services ...string) (*gce.Cloud, grant.Store) {
	t.Helper()
	buckets := servers.FakeGCS(t)
	cfg := gce.Config{Dir: t.TempDir(), Price: func(gce.Bill) float64 { return 0.1 }}
	if spark != nil {
		cfg.Run = spark(buckets)
	}
	google, err := gce.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(google.Close)
	google.KeepBuckets(buckets)
	web := httptest.NewServer(google)
	t.Cleanup(web.Close)
	const signer = "broker@demo.iam.gserviceaccount.com"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := gcs.New(buckets, signer, key)
	if err != nil {
		t.Fatal(err)
	}
	storage := httptest.NewServer(gate)
	t.Cleanup(storage.Close)
	if err := gate.MakeBucket(t.Context(), "demo-work"); err != nil {
		t.Fatal(err)
	}
	saved(t, s, "gcp", cloudkit.Settings{
		Project: "demo", Regions: []string{"us-central1"}, Endpoint: web.URL, Proofs: web.URL + "/oauth2/v3/certs",
		ServiceAccount: "machines@demo.iam.gserviceaccount.com", Storage: storage.URL,
		Stores: map[string]string{"us-central1": "demo-work"}, Impersonate: signer, Services: services,
	})
	store, err := gcsgrant.New(gcsgrant.Options{Account: signer, Sign: gcsgrant.RSA(key), Endpoint: storage.URL})
	if err != nil {
		t.Fatal(err)
	}
	return google, store
}

// TestLaptopOnAzure runs jobs on an emulated Azure. URLs are signed with a user delegation key.
func TestLaptopOnAzure(t *testing.T) {
	rehearsedLaptop(t)
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	authority, err := imdstest.NewAzureAuthority()
	if err != nil {
		t.Fatal(err)
	}
	azure := arm.New(arm.Config{
		Dir: t.TempDir(), Authority: authority,
		Sizes: []arm.Size{{Name: "Standard_D4s_v5", Family: "standardDSv5Family", VCPU: 4, MemoryGiB: 16,
			Zones: []string{"1", "2"}, USD: 0.17, SpotUSD: 0.05}},
		Locations: []arm.Location{{Name: "eastus", Zones: map[string]string{"1": "eastus-az1", "2": "eastus-az2"}}},
	})
	t.Cleanup(azure.Close)
	web := httptest.NewServer(azure)
	t.Cleanup(web.Close)
	authority.Issuers = web.URL + arm.IssuersPath
	certificates := filepath.Join(t.TempDir(), "certificates.pem")
	if err := os.WriteFile(certificates, []byte(authority.Certificates()), 0o600); err != nil {
		t.Fatal(err)
	}
	shared, err := service.NewSharedKeyCredential(servers.AzureAccount, servers.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	azurite := servers.Azurite(t)
	gate, err := blob.New(azurite, shared, base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	storage := httptest.NewServer(gate)
	t.Cleanup(storage.Close)
	store, err := azgrant.New(azurite+"/"+servers.AzureAccount, azgrant.SharedKey(shared), azgrant.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.MakeBucket(t.Context(), "azblob://work"); err != nil {
		t.Fatal(err)
	}
	saved(t, s, "azure", cloudkit.Settings{
		Subscription: arm.DefaultSubscription, ResourceGroup: "tradewind", Regions: []string{"eastus"},
		Endpoint: web.URL, Proofs: certificates, Storage: storage.URL, StorageAccount: servers.AzureAccount,
		Stores: map[string]string{"eastus": "work"},
	})
	runLaptop(t, s, "azure", " --catalog "+catalogOf(t, "azure.csv", "Standard_D4s_v5,4,16,,,eastus,,0.17,0.05"))
	for _, b := range azure.Bills() {
		if b.To.IsZero() {
			t.Errorf("machine %s is left", b.Name)
		}
	}
	emptyOfMessages(t, store, "azblob://work")
}

// saves is a job whose task counts to 1000 in checkpoints, and starts from the last one.
const saves = `apiVersion: tradewind/v1
name: saves
tasks:
  count:
    run: |
      step=$(cat "$TRADEWIND_CHECKPOINT/step" 2>/dev/null || echo 0)
      echo "$step" >>MARKS/starts
      if [ "$step" != 0 ]; then exit 0; fi
      while :; do step=$((step + 1)); echo $step >"$TRADEWIND_CHECKPOINT/step"; sleep 0.5; done
    checkpoint: {every: 5s, path: ckpt/, size: 1MiB}
    resources: {cpus: 1+, memory: 1+, arch: amd64}
    time: 10m
`

// TestLaptopAwayForTooLong: a broker is killed, and away for longer than it declared. The machine must end. When a
// broker is back, the job must resume from its checkpoint.
func TestLaptopAwayForTooLong(t *testing.T) {
	rehearsedLaptop(t)
	t.Parallel() // it mostly waits
	s := build(t).in(t)
	endpoint := emulator.OwnMoto(t)
	h, certificates := emulateAWS(t, s, endpoint)
	h.mu.Lock()
	h.shutsDown = true
	h.mu.Unlock()
	s.must("tradewind cloud add aws --bucket --certificates " + certificates)
	marks, agents := t.TempDir(), " --agents "+buildAgent(t)
	file := writeJob(t, strings.ReplaceAll(saves, "MARKS", marks))
	broker := s.command("tradewind run " + file + " --yes --on aws --away 1m" + agents)
	if err := broker.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, s, filepath.Join(marks, "starts"))
	buckets := s3.NewFromConfig(emulator.Config(endpoint), func(o *s3.Options) { o.UsePathStyle = true })
	for !hasCheckpoint(t, buckets) {
		time.Sleep(200 * time.Millisecond)
	}
	_ = broker.Process.Signal(syscall.SIGKILL)
	_ = broker.Wait()
	killed := time.Now()
	for h.working() > 0 {
		if time.Since(killed) > 4*time.Minute {
			t.Fatal("the machine works on without a broker")
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Logf("the machine ended %v after the broker", time.Since(killed).Round(time.Second))
	stop := s.up("--clouds aws --away 1m" + agents)
	if _, errs, code := s.run("tradewind status -w last"); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, s.must("tradewind explain last"))
	}
	starts, err := os.ReadFile(filepath.Join(marks, "starts"))
	if lines := strings.Fields(string(starts)); err != nil || len(lines) != 2 || lines[0] != "0" || lines[1] == "0" {
		t.Errorf("starts from steps %q, %v", starts, err)
	}
	t.Log(s.must("tradewind explain last"))
	stop()
	h.noneLeft(t.Context())
}

// hasCheckpoint reports whether the bucket has a complete checkpoint.
func hasCheckpoint(t *testing.T, buckets *s3.Client) bool {
	t.Helper()
	list, err := buckets.ListBuckets(t.Context(), &s3.ListBucketsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range list.Buckets {
		all, err := buckets.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: b.Name})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range all.Contents {
			if strings.Contains(aws.ToString(o.Key), "/ckpt/000002-") {
				return true
			}
		}
	}
	return false
}
