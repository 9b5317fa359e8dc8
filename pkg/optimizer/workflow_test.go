package optimizer_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// data opens a gzipped file of the shared data set. If it is missing, it skips the test.
func data(t testing.TB, name string) *gzip.Reader {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "..", "shared", "data", name))
	if err != nil {
		t.Skipf("needs the shared data set beside the project: %v", err)
	}
	t.Cleanup(func() { _ = f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// offerClass is the cheapest machine of a size in a region.
type offerClass struct {
	region, cloud string
	cpus          float64
	usdPerHour    float64
	name          string
}

// offerClasses reads the catalogue and returns, for each region and size from 2 to 16 CPUs, the cheapest offer of any
// type, on demand or spot.
func offerClasses(t testing.TB) []offerClass {
	t.Helper()
	best := map[string]offerClass{}
	for _, cloud := range []string{"aws", "azure", "gcp", "lambda"} {
		rows, err := csv.NewReader(data(t, "catalog/"+cloud+".csv.gz")).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		col := map[string]int{}
		for i, name := range rows[0] {
			col[name] = i
		}
		for _, row := range rows[1:] {
			cpus, _ := strconv.ParseFloat(row[col["vCPUs"]], 64)
			if row[col["InstanceType"]] == "" || cpus < 2 || cpus > 16 {
				continue
			}
			for _, market := range []string{"Price", "SpotPrice"} {
				usd, err := strconv.ParseFloat(row[col[market]], 64)
				if err != nil || usd <= 0 {
					continue
				}
				o := offerClass{region: cloud + ":" + row[col["Region"]], cloud: cloud, cpus: cpus, usdPerHour: usd, name: row[col["InstanceType"]] + "/" + market}
				key := fmt.Sprint(o.region, "/", cpus)
				if old, ok := best[key]; !ok || o.usdPerHour < old.usdPerHour {
					best[key] = o
				}
			}
		}
	}
	classes := slices.Collect(maps.Values(best))
	slices.SortFunc(classes, func(a, b offerClass) int {
		return cmp.Or(cmp.Compare(a.region, b.region), cmp.Compare(a.cpus, b.cpus))
	})
	return classes
}

type dax struct {
	Jobs []struct {
		ID      string  `xml:"id,attr"`
		Runtime float64 `xml:"runtime,attr"`
		Uses    []struct {
			File string  `xml:"file,attr"`
			Link string  `xml:"link,attr"`
			Size float64 `xml:"size,attr"`
		} `xml:"uses"`
	} `xml:"job"`
}

// workflowModel returns a Pegasus workflow with candidates from the whole catalogue. The speed of a task depends on
// the CPUs of its machine: four fifths of the task run in parallel. Files without a producer are in a bucket in
// us-east-1.
func workflowModel(t testing.TB, file string, classes []offerClass) *optimizer.Model {
	t.Helper()
	var flow dax
	if err := xml.NewDecoder(data(t, "workflows/dax/"+file)).Decode(&flow); err != nil {
		t.Fatal(err)
	}
	m := &optimizer.Model{Objective: optimizer.Cost}
	index := map[string]int{}
	clouds := []string{}
	for _, c := range classes {
		if _, ok := index[c.region]; !ok {
			index[c.region] = len(m.Places)
			m.Places = append(m.Places, c.region)
			clouds = append(clouds, c.cloud)
		}
	}
	out := map[string]float64{"aws": 0.09, "azure": 0.0875, "gcp": 0.12, "lambda": 0}
	for p := range m.Places {
		usd, hours := make([]float64, len(m.Places)), make([]float64, len(m.Places))
		for q := range m.Places {
			switch {
			case p == q:
				hours[q] = 0.0001
			case clouds[p] == clouds[q]:
				usd[q], hours[q] = out[clouds[p]]/4, 0.0004
			default:
				usd[q], hours[q] = out[clouds[p]], 0.0008
			}
		}
		m.USDPerGiB = append(m.USDPerGiB, usd)
		m.HoursPerGiB = append(m.HoursPerGiB, hours)
	}
	bucket := "bucket"
	m.Tasks = append(m.Tasks, optimizer.Task{ID: bucket, Candidates: []optimizer.Candidate{{ID: "pinned", Place: index["aws:us-east-1"]}}})
	producer := map[string]string{}
	for _, j := range flow.Jobs {
		for _, u := range j.Uses {
			if u.Link == "output" {
				producer[u.File] = j.ID
			}
		}
	}
	for _, j := range flow.Jobs {
		task := optimizer.Task{ID: j.ID}
		for _, c := range classes {
			hours := j.Runtime / 3600 * (0.2 + 0.8*2/c.cpus)
			task.Candidates = append(task.Candidates, optimizer.Candidate{
				ID: c.region + "/" + c.name, Place: index[c.region], USD: hours * c.usdPerHour, Hours: hours,
			})
		}
		m.Tasks = append(m.Tasks, task)
		for _, u := range j.Uses {
			if u.Link != "input" {
				continue
			}
			from, ok := producer[u.File]
			if !ok {
				from = bucket
			}
			if from != j.ID {
				m.Edges = append(m.Edges, optimizer.Edge{From: from, To: j.ID, GiB: u.Size / (1 << 30)})
			}
		}
	}
	return m
}

// Real workflows with the whole catalogue must be solved to optimality.
func TestWorkflowsAreSolvedToOptimality(t *testing.T) {
	classes := offerClasses(t)
	for _, name := range []string{"Montage_100", "CyberShake_100", "Epigenomics_100", "Inspiral_100", "Sipht_100"} {
		m := workflowModel(t, name+".xml.gz", classes)
		for _, objective := range []optimizer.Objective{optimizer.Cost, optimizer.Makespan} {
			m.Objective = objective
			s := solve(t, m, optimizer.Options{})
			if s.Status != optimizer.Optimal {
				t.Errorf("%s, %s: %s, bound %v of %v", name, m.Objective, s.Status, s.Bound, s.Objective)
			}
			checkPlan(t, m, s)
		}
	}
}

var workflows = []string{"Montage_25", "CyberShake_30", "Montage_100", "CyberShake_1000", "Inspiral_1000", "Montage_1000"}

func BenchmarkWorkflow(b *testing.B) {
	classes := offerClasses(b)
	for _, name := range workflows {
		m := workflowModel(b, name+".xml.gz", classes)
		cheap, fast := ends(b, m)
		deadline, budget := 0.6*fast.Hours+0.4*cheap.Hours, 0.6*cheap.USD+0.4*fast.USD
		for _, q := range []struct {
			name             string
			objective        optimizer.Objective
			deadline, budget *float64
		}{
			{"cost", optimizer.Cost, nil, nil},
			{"makespan", optimizer.Makespan, nil, nil},
			{"cost-within-deadline", optimizer.Cost, &deadline, nil},
			{"makespan-within-budget", optimizer.Makespan, nil, &budget},
		} {
			b.Run(name+"/"+q.name, func(b *testing.B) {
				m := *m
				m.Objective, m.DeadlineHours, m.BudgetUSD = q.objective, q.deadline, q.budget
				run(b, []*optimizer.Model{&m}, optimizer.Options{TimeLimit: 10 * time.Second})
			})
		}
	}
}
