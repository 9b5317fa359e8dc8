// Command submit is the Lambda function that submits DAG files that appear in the bucket.
package main

import (
	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/activity"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/data"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/far"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/keys"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
)

func main() { lambdahost.Start(events.FnSubmit, handler) }

func handler(s *lambdahost.Sandbox) (any, error) {
	others := far.New(s)
	own := objects.NewDAGs(s)
	files := dagbucket.Buckets{Files: others.DAGBuckets(), Other: own}
	ports := s.Ports()
	ports.Objects, ports.Accepted = files, files.Accepted(own.Accepted, s.Log)
	ports.Packs, ports.Data = objects.NewDepot(s), data.New(s, others)
	ports.Secrets = keys.Secrets(s, keys.Open(s), others)
	b, err := s.Broker(ports)
	if err != nil {
		return nil, err
	}
	h := &lambdahost.Handler{Sandbox: s, Functions: b.Functions, After: activity.NewAWS(s).On}
	return h.HandleDirectOrSQS, nil
}
