package push_test

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// The name of an object alone decides whether it may be a job file. While code is uploaded into a bucket, its job
// file may not exist yet.
func TestMayBeJob(t *testing.T) {
	for key, job := range map[string]bool{
		"job.yaml":                 true,
		"team/2026/11/job.sbatch":  true,
		"team/my_job.yaml":         true,
		"":                         false, // the object that marks a folder
		"team/":                    false,
		"team/job.yaml.error.txt":  false,
		"team/_code/k8s/job.yaml":  false,
		"team/.git/config":         false,
		"_job.yaml":                false,
		"team/code/_build/ci.yaml": false,
	} {
		if push.MayBeJob(key) != job {
			t.Errorf("%s may be a job: %v", key, !job)
		}
	}
}
