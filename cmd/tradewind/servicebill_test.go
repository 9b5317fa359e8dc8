package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/sparkrun/sparktest"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// TestBillsOfServicesAreThoseOfAccounts runs a Spark application that waits for as long as TRADEWIND_BENCH_SERVICES says
// on each emulated service, which takes as long to start as plans expect. It compares the plan, the account's usage at
// the prices of the catalogue, and what the broker has booked, and writes the rows of a table to the file that
// TRADEWIND_BENCH_RESULT names.
func TestBillsOfServicesAreThoseOfAccounts(t *testing.T) {
	wait, err := time.ParseDuration(os.Getenv("TRADEWIND_BENCH_SERVICES"))
	if err != nil {
		t.Skip("make bench-bill-services runs it")
	}
	bin, jars := sparktest.Bin(t, "../.."), sparktest.Stores(t, "../..")
	rows := make(chan string, 4)
	t.Run("services", func(t *testing.T) {
		t.Run("AWS", func(t *testing.T) {
			t.Parallel()
			billsOfAWS(t, wait, bin, jars, rows)
		})
		t.Run("Google", func(t *testing.T) {
			t.Parallel()
			billsOfGoogle(t, wait, bin, jars, rows)
		})
	})
	close(rows)
	var table strings.Builder
	for row := range rows {
		table.WriteString(row)
	}
	t.Log("\n" + table.String())
	if result := os.Getenv("TRADEWIND_BENCH_RESULT"); result != "" {
		if err := os.WriteFile(result, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func billsOfAWS(t *testing.T, wait time.Duration, bin, jars string, rows chan<- string) {
	s := build(t).in(t)
	account, _, certificates := emulateServicesOfAWS(t, s, bin, jars)
	account.Boot(10*time.Minute, 2*time.Minute)
	s.must("tradewind cloud add aws --services emr,emr-serverless --certificates " + certificates)
	stop := s.up("--clouds aws --agents " + buildAgent(t))
	compareBills(t, s, wait, "", account.Usage, rows,
		"{service: emr, instanceType: m5.xlarge, region: us-east-1}", "{service: emr-serverless, region: us-east-1}")
	stop()
}

func billsOfGoogle(t *testing.T, wait time.Duration, bin, jars string, rows chan<- string) {
	s := build(t).in(t)
	google, _ := emulateGoogleWithSpark(t, s, func(buckets string) sparkjob.Runner {
		return sparkjob.Spark{Bin: bin, Jars: jars, Dir: t.TempDir(), Properties: sparkjob.Storage(buckets, "demo")}.Run
	}, "dataproc", "dataproc-serverless")
	google.BootSpark(90*time.Second, time.Minute)
	prices := " --catalog " + catalogOf(t, "gcp.csv", "n2-standard-4,4,16,,,us-central1,us-central1-a,0.15,0.05")
	stop := s.up("--clouds gcp --agents " + buildAgent(t) + prices)
	compareBills(t, s, wait, prices, google.SparkUsage, rows,
		"{service: dataproc, instanceType: n2-standard-4, region: us-central1}", "{service: dataproc-serverless, region: us-central1}")
	stop()
}

// compareBills runs a job on each place, all at the same time, and sends a row for each.
func compareBills(t *testing.T, s *shell, wait time.Duration, prices string, usage func() []sparkjob.Usage,
	rows chan<- string, places ...string) {
	t.Helper()
	type job struct {
		id, service string
		plan        struct {
			USD   float64 `json:"usd"`
			Hours float64 `json:"hours"`
		}
	}
	var jobs []job
	for _, place := range places {
		file := waitingJob(t, wait, place)
		j := job{service: strings.TrimSuffix(strings.Fields(place)[1], ",")}
		if err := json.Unmarshal([]byte(s.must("tradewind plan "+file+" -o json"+prices)), &j.plan); err != nil {
			t.Fatal(err)
		}
		j.id = strings.TrimSpace(s.must("tradewind submit " + file))
		jobs = append(jobs, j)
	}
	for _, j := range jobs {
		if _, errs, code := s.run("tradewind status -w " + j.id); code != 0 {
			t.Fatalf("%s: exit %d\n%s\n%s", j.service, code, errs, s.must("tradewind explain "+j.id))
		}
		var booked struct {
			SpentUSD float64 `json:"spentUSD"`
		}
		var used *sparkjob.Usage
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
			for _, u := range usage() {
				if u.Service == j.service && !u.Until.IsZero() {
					used = &u
				}
			}
			if used != nil || time.Now().After(end) {
				break
			}
		}
		if used == nil {
			t.Fatalf("%s: nothing was used, or it still lives: %+v", j.service, usage())
		}
		if err := json.Unmarshal([]byte(s.must("tradewind status "+j.id+" -o json")), &booked); err != nil {
			t.Fatal(err)
		}
		usd := priceOf(t, used) * used.Hours(time.Now())
		rows <- fmt.Sprintf("| %s | %.4f USD | %.3f | %.3f |\n", j.service, j.plan.USD, usd/j.plan.USD,
			booked.SpentUSD/j.plan.USD)
		const most = 0.05
		if math.Abs(usd/j.plan.USD-1) > most || math.Abs(usd/booked.SpentUSD-1) > most {
			t.Errorf("%s: the account bills %.4f USD, the plan says %.4f, the broker has booked %.4f", j.service, usd,
				j.plan.USD, booked.SpentUSD)
		}
	}
}

// waitingJob writes a job with a Spark application that waits on a place, and returns its job file.
func waitingJob(t *testing.T, wait time.Duration, place string) (file string) {
	t.Helper()
	dir := t.TempDir()
	script := "import sys, time\nfrom pyspark.sql import SparkSession\nSparkSession.builder.getOrCreate()\ntime.sleep(float(sys.argv[1]))\n"
	text := fmt.Sprintf("apiVersion: tradewind/v1\nname: wait\ntasks:\n  wait:\n    spark: {main: wait.py, args: [%v], version: 3.5+}\n"+
		"    resources: {executors: 2, anyOf: [%s]}\n    time: %s\n", wait.Seconds(), place, wait)
	if _, after, named := strings.Cut(place, "instanceType: "); named { // it waits no longer on a slower machine
		machine, _, _ := strings.Cut(after, ",")
		text += "    reference: " + machine + "\n"
	}
	file = filepath.Join(dir, "job.yaml")
	for name, body := range map[string]string{"wait.py": script, "job.yaml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file
}

// priceOf is the price of all that a usage is for, in USD per hour, by the catalogue.
func priceOf(t *testing.T, u *sparkjob.Usage) (usd float64) {
	t.Helper()
	if u.InstanceType == "" {
		const bytesPerGiB = 1 << 30
		for _, r := range catalog.ServerlessRates(catalog.Service(u.Service)) {
			if r.Region == "us-east-1" || r.Region == "us-central1" {
				return r.USDPerHour(float64(u.VCPUs), u.GiB*bytesPerGiB/1e9) * float64(u.Workers)
			}
		}
		t.Fatalf("no rate of %s", u.Service)
	}
	// EC2's and EMR's prices of an m5.xlarge in us-east-1; Compute Engine's price in these tests, and Dataproc's of 4 vCPUs.
	prices := map[string]float64{"m5.xlarge": 0.192 + 0.048, "n2-standard-4": 0.15 + 4*0.01}
	return prices[u.InstanceType] * float64(u.Machines)
}
