package main

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
)

// trainInferCatalog has the offers of two clouds: a TPU that is the cheapest for training, V100s that are the next
// best, and machines without accelerators. AWS, and so moto, no longer has p3.2xlarge: p3dn.24xlarge stands for it,
// as if it had one V100.
var trainInferCatalog = map[string]string{
	"gcp.csv": `InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice
n2-standard-2,2,8,,,us-central1,us-central1-a,0.0971,0.0232
,,,tpu-v3-8,1,us-central1,us-central1-a,8.0,2.04
`,
	"aws.csv": `InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,Region,AvailabilityZone,Price,SpotPrice
p3dn.24xlarge,8,61,V100,1,us-east-1,use1-az1,3.06,1.2
p3dn.24xlarge,8,61,V100,1,us-east-1,use1-az2,3.06,1.2
m5.2xlarge,8,32,,,us-east-1,use1-az1,0.384,0.15
m5.2xlarge,8,32,,,us-east-1,use1-az2,0.384,0.15
`,
}

// testTPU trains examples/train-infer.yaml on a Google TPU. Google interrupts it and has no other, so the training
// must resume from its checkpoint on a V100 of AWS, where the inference runs, too. The machines of both clouds are
// processes that run the real boot script.
func testTPU(t *testing.T, s *shell) {
	endpoint := emulator.OwnMoto(t) // an emulator of its own, so that no other test boots its machines
	google, err := gce.New(gce.Config{Dir: t.TempDir(), Price: func(gce.Bill) float64 { return 2.04 }})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(google)
	t.Cleanup(web.Close)
	authority, err := imdstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	h := &hypervisor{T: t, dir: t.TempDir(), authority: authority, machines: map[string]*instance{},
		ec2: ec2.NewFromConfig(emulator.Config(endpoint))}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); h.run(ctx) }()
	t.Cleanup(func() { cancel(); <-over })

	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for name, text := range trainInferCatalog {
		write(name, text)
	}
	certificates := write("certificates.pem", authority.Certificates())
	image := anyImage(t, h.ec2)
	// The job is the example, except that its training waits at its third step until the test continues.
	hold := write("hold", "")
	example, err := os.ReadFile("../../examples/train-infer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const first = "sleep 1\n"
	job := write("train-infer.yaml", strings.Replace(string(example), first,
		first+`        while [ "$step" = 3 ] && [ -e '`+hold+"' ]; do sleep 0.1; done\n", 1))

	s.env = append(s.env, emulator.Env(endpoint)...)
	err = cloudkit.Save(s.stateFolder(), map[string]cloudkit.Settings{
		"gcp": {Project: "demo", Regions: []string{"us-central1"}, TPUs: true, Endpoint: web.URL,
			ServiceAccount: "machines@demo.iam.gserviceaccount.com", Proofs: web.URL + "/oauth2/v3/certs"},
		"aws": {Regions: []string{emulator.Region}, Certificates: certificates, Images: map[string]string{"amd64": image, "amd64-gpu": image}},
	})
	if err != nil {
		t.Fatal(err)
	}
	plan := s.must("tradewind plan " + job + " --catalog " + dir)
	if !strings.Contains(plan, "tpu-v3-8") || !strings.Contains(plan, "m5.2xlarge") {
		t.Fatalf("plan:\n%s", plan)
	}
	address := freeAddress(t)
	stop := s.up("--clouds aws,gcp --catalog " + dir + " --agents " + buildAgent(t) + " --addr " + address + " --public-url http://" + address)
	id := strings.TrimSpace(s.must("tradewind submit " + job))
	story := func() string { return s.must("tradewind explain " + id) }
	saved := func() bool { // whether the broker knows a checkpoint; one that is only in the store is not used
		var status struct {
			TaskList []struct {
				Name     string  `json:"name"`
				Progress float64 `json:"progress"`
			} `json:"taskList"`
		}
		if err := json.Unmarshal([]byte(s.must("tradewind status -o json "+id)), &status); err != nil {
			t.Fatal(err)
		}
		for _, task := range status.TaskList {
			if task.Name == "train" && task.Progress > 0 {
				return true
			}
		}
		return false
	}
	for !saved() {
		if _, _, code := s.run("tradewind status " + id); code != 0 || ctx.Err() != nil {
			t.Fatalf("before the TPU is preempted:\n%s", story())
		}
		_ = clock.Pause(ctx, 200*time.Millisecond)
	}
	bills := google.Bills()
	if len(bills) != 1 || bills[0].Accelerator != "v3-8" || !bills[0].Spot {
		t.Fatalf("bills %+v\n%s", bills, story())
	}
	if !google.FinishPreemption(bills[0].ID) {
		t.Fatal("the TPU is not there")
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := s.run("tradewind status -w " + id); code != 0 {
		t.Fatalf("exit %d\n%s\n%s", code, errs, story())
	}
	told := story()
	for _, part := range []string{"tpu-v3-8", "p3dn.24xlarge", "m5.2xlarge"} {
		if !strings.Contains(told, part) {
			t.Errorf("%s is not in\n%s", part, told)
		}
	}
	if log := s.must("tradewind logs " + id + " train"); strings.Contains(log, "from step 0") || !strings.Contains(log, "step 5 of 5") {
		t.Errorf("on the V100:\n%s", log)
	}
	t.Logf("%s", told)
	stop()
	if left := google.Leftovers(); len(left) > 0 {
		t.Errorf("left on Google: %v", left)
	}
	for _, b := range google.Bills() {
		if b.Until.IsZero() {
			t.Errorf("a TPU is left: %+v", b)
		}
	}
	for _, f := range google.Faults() {
		t.Errorf("not as in Google's documentation: %s", f)
	}
}

// anyImage returns an image that the emulated EC2 has.
func anyImage(t *testing.T, client *ec2.Client) string {
	t.Helper()
	out, err := client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"amazon"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range out.Images {
		if i.Architecture == "x86_64" && i.State == "available" && i.Platform == "" {
			return aws.ToString(i.ImageId)
		}
	}
	t.Fatal("no image")
	return ""
}
