package main

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/emulator"
)

// billed has the planned cost and the bill of a job. `make bench-bill` reads it.
type billed struct {
	PlannedUSD   float64 `json:"plannedUSD"`
	PlannedHours float64 `json:"plannedHours"`
	// by the account: from the life of each machine that EC2 reports, at the plan's price
	USD       float64 `json:"usd"`
	BrokerUSD float64 `json:"brokerUSD"` // by the broker
	Hours     float64 `json:"hours"`
	Machines  int     `json:"machines"`
}

// TestLaptopBillIsThatOfAccount runs the job in the file that TRADEWIND_BENCH_BILL names. The AWS is emulated, and
// its machines boot as slowly as real ones. All machines of the job have the same offer. The broker's bill and the
// account's must agree to a minute for each machine. The test writes the plan and the bill to the file that
// TRADEWIND_BENCH_RESULT names.
func TestLaptopBillIsThatOfAccount(t *testing.T) {
	file := os.Getenv("TRADEWIND_BENCH_BILL")
	if file == "" {
		t.Skip("make bench-bill runs it")
	}
	s := build(t).in(t)
	h, certificates := emulateAWS(t, s, emulator.OwnMoto(t))
	h.boots = measuredBoots(t)
	s.must("tradewind cloud add aws --certificates " + certificates)
	var plan struct {
		USD    float64 `json:"usd"`
		Hours  float64 `json:"hours"`
		Fleets []struct {
			Hours float64 `json:"hours"`
			USD   float64 `json:"usd"`
		} `json:"fleets"`
	}
	if err := json.Unmarshal([]byte(s.must("tradewind plan "+file+" -o json")), &plan); err != nil {
		t.Fatal(err)
	}
	if len(plan.Fleets) != 1 {
		t.Fatalf("the plan has %d kinds of machines", len(plan.Fleets))
	}
	price := plan.Fleets[0].USD / plan.Fleets[0].Hours
	begun := time.Now()
	out, errs, code := s.run("tradewind run " + file + " --yes --on aws --agents " + buildAgent(t))
	if code != 0 {
		t.Fatalf("exit %d\n%s%s\n%s", code, out, errs, s.must("tradewind explain last"))
	}
	got := billed{PlannedUSD: plan.USD, PlannedHours: plan.Hours, Hours: time.Since(begun).Hours()}
	got.USD, got.Machines = accountBill(t, h.ec2, price)
	var machines struct {
		Machines []struct {
			USD float64 `json:"usd"`
		} `json:"machines"`
	}
	if err := json.Unmarshal([]byte(s.must("tradewind machines --all -o json")), &machines); err != nil {
		t.Fatal(err)
	}
	for _, m := range machines.Machines {
		got.BrokerUSD += m.USD
	}
	t.Logf("%+v", got)
	if off := math.Abs(got.USD - got.BrokerUSD); off > price/60*float64(got.Machines) {
		t.Errorf("the account bills %v USD, the broker has booked %v", got.USD, got.BrokerUSD)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if result := os.Getenv("TRADEWIND_BENCH_RESULT"); result != "" {
		if err := os.WriteFile(result, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// measuredBoots returns a function that gives the boot time of a machine: a time of the measured distribution, chosen
// by the machine's ID.
func measuredBoots(t *testing.T) func(id string) time.Duration {
	t.Helper()
	const vcpu = 16
	boot, ok := hardware.BootOf("aws", vcpu, 0)
	if !ok {
		t.Fatal("no boot times")
	}
	return func(id string) time.Duration {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(id))
		return boot.Quantile(float64(sum.Sum32()) / math.MaxUint32)
	}
}

var initiated = regexp.MustCompile(`\((.*) UTC\)`)

// accountBill returns the price and the number of all machines of an account, by their launch, the end that EC2
// reports, and a price per hour.
func accountBill(t *testing.T, client *ec2.Client, price float64) (usd float64, machines int) {
	t.Helper()
	out, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			said := initiated.FindStringSubmatch(aws.ToString(i.StateTransitionReason))
			if said == nil {
				t.Fatalf("machine %s is %s: %q", aws.ToString(i.InstanceId), i.State.Name, aws.ToString(i.StateTransitionReason))
			}
			ended, err := time.Parse("2006-01-02 15:04:05", said[1])
			if err != nil {
				t.Fatal(err)
			}
			usd += hardware.BillingOf("aws").Billed(ended.Sub(aws.ToTime(i.LaunchTime))).Hours() * price
			machines++
		}
	}
	return usd, machines
}
