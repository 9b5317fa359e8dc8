package apitypes_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The answer to GET /v1/jobs/{id} is a JobDetail.
func ExampleJobDetail() {
	answer := `{"id":"train-4f7","state":"running","tasks":1,"spentUSD":1.25,"taskList":[{"index":0,"name":"fit",
		"state":"running","offer":"aws/us-east-1/use1-az1/p3.2xlarge/spot","usdPerHour":0.918}]}`
	var job apitypes.JobDetail
	if err := json.Unmarshal([]byte(answer), &job); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(job.ID, job.State, job.State.Finished(), job.TaskList[0].USDPerHour)
	// Output: train-4f7 running false 0.918
}

// A refused request gets a Problem as its answer. A Problem is an error.
func ExampleProblem() {
	var err error = &apitypes.Problem{Status: 422, Detail: "job.yaml:3: deadline: is not a time", Line: 3, Field: "deadline"}
	var p *apitypes.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Field, p)
	}
	// Output: 422 deadline job.yaml:3: deadline: is not a time
}

// The difference of two amounts is what a queue may still admit.
func ExampleAmounts_Minus() {
	q := apitypes.Queue{MaxVCPU: 64, VCPU: 24, Max: apitypes.Amounts{"A100": 8}, Use: apitypes.Amounts{"A100": 2}}
	fmt.Println(q.Limits().Minus(q.Used()))
	// Output: map[A100:6 vcpus:40]
}
