package read_test

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// Job detects the format of a file. This example converts a SkyPilot file to the native format.
func ExampleJob() {
	job, err := read.Job(
		"train.yaml",
		strings.NewReader("resources: {accelerators: V100:4, use_spot: true}\nrun: python train.py\n"),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := dag.Marshal(job)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, _ = os.Stdout.Write(text)
	// Output:
	// apiVersion: tradewind/v1
	// name: train
	// objective: cost
	// tasks:
	//   train:
	//     run: python train.py
	//     login: true
	//     resources: {accelerators: 'V100:4', market: spot}
}

// An error has the line and the field, and suggests a correction.
func ExampleJob_error() {
	_, err := read.Job("job.yaml", strings.NewReader("apiVersion: tradewind/v1\ntasks:\n  a:\n    rnu: echo\n"))
	var bad *dag.Error
	if errors.As(err, &bad) {
		fmt.Println(bad.Line, bad.Field, bad.Hint)
	}
	fmt.Println(err)
	// Output:
	// 4 tasks.a.rnu did you mean "run"?
	// job.yaml:4:5: tasks.a.rnu: unknown field (did you mean "run"?)
}
