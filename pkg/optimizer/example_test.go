package optimizer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// trainInfer is a job of two tasks. Moving the trained model between clouds costs more than a cheaper machine there
// would save.
func trainInfer() *optimizer.Model {
	return &optimizer.Model{
		Objective:   optimizer.Cost,
		Places:      []string{"aws:us-east-1", "gcp:us-central1"},
		USDPerGiB:   [][]float64{{0, 0.09}, {0.12, 0}},
		HoursPerGiB: [][]float64{{0, 0.00022}, {0.00022, 0}},
		Tasks: []optimizer.Task{
			{ID: "train", Candidates: []optimizer.Candidate{
				{ID: "aws/p3.2xlarge/spot", Place: 0, USD: 1.93, Hours: 2.1},
				{ID: "gcp/tpu-v3-8/spot", Place: 1, USD: 2.16, Hours: 0.9},
			}},
			{ID: "infer", Candidates: []optimizer.Candidate{
				{ID: "aws/m5.2xlarge/on-demand", Place: 0, USD: 0.96, Hours: 0.7},
				{ID: "gcp/n2-standard-8/spot", Place: 1, USD: 0.11, Hours: 0.7},
			}},
		},
		Edges: []optimizer.Edge{{From: "train", To: "infer", GiB: 12}},
	}
}

func ExampleSolve() {
	m := trainInfer()
	s, err := optimizer.Solve(context.Background(), m, optimizer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s: %.2f USD in %.2f h\n", s.Status, s.USD, s.Hours)
	for _, t := range m.Tasks {
		fmt.Println(t.ID, "on", s.Choice[t.ID])
	}
	// Output:
	// optimal: 2.27 USD in 1.60 h
	// train on gcp/tpu-v3-8/spot
	// infer on gcp/n2-standard-8/spot
}

func ExampleSolve_deadline() {
	m := trainInfer()
	deadline := 1.5
	m.DeadlineHours = &deadline
	s, err := optimizer.Solve(context.Background(), m, optimizer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Status)
	fmt.Println(s.Message)
	// Output:
	// infeasible
	// the deadline is 1h30m but the fastest plan takes 1h36m: extend it by 6m
}

func ExampleReadModel() {
	_, err := optimizer.ReadModel(strings.NewReader(`{"objective":"cost","places":["here"],"usdPerGiB":[[0]],
		"hoursPerGiB":[[0]],"tasks":[{"id":"a","candidates":[{"id":"x","place":1,"usd":1,"hours":1}]}],"edges":[]}`))
	var bad *optimizer.ModelError
	if errors.As(err, &bad) {
		fmt.Println(bad.Field)
		fmt.Println(bad.Reason)
	}
	// Output:
	// tasks[0].candidates[0].place
	// 1 is not an index into the 1 places
}

func ExampleExplainer_Alternatives() {
	m := trainInfer()
	s, err := optimizer.Solve(context.Background(), m, optimizer.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := optimizer.NewExplainer(m, s)
	if err != nil {
		fmt.Println(err)
		return
	}
	runners, err := e.Alternatives("infer", 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range runners {
		fmt.Printf("%s would add %.2f USD\n", r.ID, r.AddUSD)
	}
	// Output:
	// aws/m5.2xlarge/on-demand would add 2.29 USD
}

func ExampleSolution_MarshalJSON() {
	s := &optimizer.Solution{
		Status: optimizer.Optimal, Objective: 1.93, Bound: 1.93, USD: 1.93, Hours: 2.1,
		Choice: map[string]string{"train": "aws/p3.2xlarge/spot"}, Millis: 0.4,
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	// Output:
	// {"status":"optimal","objective":1.93,"bound":1.93,"usd":1.93,"hours":2.1,"choice":{"train":"aws/p3.2xlarge/spot"},"millis":0.4}
}
