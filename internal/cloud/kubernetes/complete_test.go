package kubernetes

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// complete creates the missing pods of a cluster. A pod that another process has just created is no error. Any other
// refusal must be returned.
func TestCompleteCreatesMissingPods(t *testing.T) {
	have := make([]corev1.Pod, 1)
	have[0].Name = "pod-1"
	var mu sync.Mutex
	var made []int
	fill := func(refuse error) error {
		made = nil
		return complete(4, have, func(i int) string { return "pod-" + strconv.Itoa(i) }, func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			made = append(made, i)
			if i == 2 {
				return refuse
			}
			return nil
		})
	}
	for _, refuse := range []error{nil, apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, "pod-2")} {
		if err := fill(refuse); err != nil {
			t.Error(err)
		}
		slices.Sort(made)
		if !slices.Equal(made, []int{0, 2, 3}) {
			t.Errorf("created %v", made)
		}
	}
	if refuse := errors.New("full"); !errors.Is(fill(refuse), refuse) {
		t.Error("a refusal is not returned")
	}
}
