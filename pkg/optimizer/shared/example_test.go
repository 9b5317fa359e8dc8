package shared_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// Three tasks of six minutes share one machine. It boots only once.
func ExampleSolve() {
	m, err := shared.ReadModel(strings.NewReader(`{
		"objective": "cost", "places": ["here"], "usdPerGiB": [[0]], "hoursPerGiB": [[0]],
		"machines": [{"id": "small", "place": 0, "usdPerHour": 0.1, "bootHours": 0.02, "minimumHours": 0.0167,
			"incrementHours": 0.00028, "speed": 1, "cpus": 2, "memoryGiB": 8, "gpus": 0, "most": 10}],
		"tasks": [
			{"id": "a", "hours": 0.1, "cpus": 2, "memoryGiB": 4, "gpus": 0},
			{"id": "b", "hours": 0.1, "cpus": 2, "memoryGiB": 4, "gpus": 0},
			{"id": "c", "hours": 0.1, "cpus": 2, "memoryGiB": 4, "gpus": 0}],
		"edges": []}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := shared.Solve(context.Background(), m, shared.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d machine, %.3f USD\n", len(s.Plan.Instances), s.Plan.USD)
	// Output: 1 machine, 0.032 USD
}
