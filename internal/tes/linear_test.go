package tes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/lineartest"
	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestReadingTaskTakesTimeLinearInSize(t *testing.T) {
	lineartest.Reading(t, func(n int) string {
		var task tes.Task
		for i := range n / 8 {
			path := fmt.Sprintf("/data/%d", i)
			task.Executors = append(task.Executors, tes.Executor{Image: "i", Command: []string{"cat", path}})
			task.Inputs = append(task.Inputs, tes.Input{Path: path, URL: "s3://b" + path})
			task.Outputs = append(task.Outputs, tes.Output{Path: "/out" + path, URL: "s3://b/out" + path})
		}
		text, err := json.Marshal(task)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}, func(text string) error {
		var task tes.Task
		if err := json.Unmarshal([]byte(text), &task); err != nil {
			return err
		}
		if _, err := tes.Job(task); !errors.Is(err, dag.ErrLimit) {
			return err
		}
		return nil
	})
}
