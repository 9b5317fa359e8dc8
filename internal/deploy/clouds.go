package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// otherClouds are the clouds other than AWS whose drivers run as functions of a deployment.
var otherClouds = []string{"azure", "gcp", "lambda"}

// cloudWithin is the maximum time of one call of a cloud's function; it is longer than the timeout of the function.
const cloudWithin = 2 * time.Minute

var errNoFunction = errors.New("deploy: there is no such function")

// leaveClouds deletes the resources that the drivers of other clouds have created besides machines, such as an SSH
// key. It returns ErrMachines while machines run there. If a cloud does not answer, this is reported and its
// resources stay. Its machines end when their leases do.
func (t *Target) leaveClouds(ctx context.Context, name string) error {
	for _, cl := range otherClouds {
		c := remote.New(cl, t.callFunction(name+"-cloud-"+cl))
		machines, err := c.Machines(ctx, "")
		if errors.Is(err, errNoFunction) {
			continue
		}
		for i := range machines {
			if m := &machines[i]; m.State != cloud.Terminated {
				return fmt.Errorf("%w: %s on %s, and %d in all", ErrMachines, m.ID, cl, len(machines))
			}
		}
		if err == nil {
			err = c.Clean(ctx, func(deleted string) { t.report(Step{What: cl, Name: deleted, Status: "done"}) })
		}
		if err != nil {
			t.report(Step{What: cl, Name: "what its machines used", Status: "unknown", Reason: err.Error()})
		}
	}
	return t.leavesPlaces(ctx, name)
}

// leavesPlaces returns ErrMachines while a place on a managed service runs. A service that the deployment does not buy,
// or that does not answer, has none.
func (t *Target) leavesPlaces(ctx context.Context, name string) error {
	for _, of := range dag.SparkServices() {
		cl := dag.ServiceCloud(of)
		places, err := remote.New(cl, t.callFunction(name+"-cloud-"+cl)).Service(of).Places(ctx)
		for _, p := range places {
			if p.State != service.Ended {
				return fmt.Errorf("%w: %s of %s, and %d in all", ErrMachines, p.Name, of, len(places))
			}
		}
		var failed *cloud.Error
		if err != nil && !errors.Is(err, errNoFunction) &&
			(!errors.As(err, &failed) || failed.Code != cloud.CodeNoCredentials) {
			t.report(Step{What: of, Name: "places", Status: "unknown", Reason: err.Error()})
		}
	}
	return nil
}

// callFunction returns a call of a function of the deployment.
func (t *Target) callFunction(function string) remote.Call {
	return func(ctx context.Context, message []byte) ([]byte, error) {
		return t.callFunctionFor(ctx, cloudWithin, function, message)
	}
}

// callFunctionFor calls a function and waits for its answer.
func (t *Target) callFunctionFor(ctx context.Context, within time.Duration, function string, message []byte) ([]byte,
	error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	raw, status, err := t.invoke(ctx, function, http.Header{}, message)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusNotFound:
		return nil, errNoFunction
	case status >= http.StatusMultipleChoices:
		return nil, fmt.Errorf("function %s: %s: %.200s", function, http.StatusText(status), raw)
	}
	// A function that fails answers with its error (AWS Lambda developer guide, "Go handler errors").
	var failed struct {
		Message string `json:"errorMessage"`
	}
	if json.Unmarshal(raw, &failed) == nil && failed.Message != "" {
		return nil, fmt.Errorf("function %s: %s", function, failed.Message)
	}
	return raw, nil
}
