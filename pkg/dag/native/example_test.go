package native_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

func ExampleParse() {
	job, err := native.Parse("job.yaml", []byte(`apiVersion: tradewind/v1
name: digits
tasks:
  prepare: {run: python prepare.py, time: 5m}
  train: {run: python train.py, after: [prepare], resources: {cpus: 8}, time: 1h}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range job.Tasks {
		fmt.Println(t.Name, t.Time.Default)
	}
	_, err = native.Parse("job.yaml", []byte("apiVersion: tradewind/v1\ntasks:\n  a: {run: echo, time: 5}\n"))
	fmt.Println(err)
	// Output:
	// prepare 5m0s
	// train 1h0m0s
	// job.yaml:3:24: tasks.a.time: the time "5" has no unit (write a number with ms, s, m, h or d: 90s, 40m, 2.1h, 1h30m)
}
