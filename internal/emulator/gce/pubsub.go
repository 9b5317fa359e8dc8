package gce

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// pubsub is Google's own fake of Pub/Sub behind the JSON API. The fake does not support push subscriptions. Here, each
// subscription with a push address is emptied by sending its messages there, with a token as configured.
type pubsub struct {
	server *pstest.Server
	stop   context.CancelFunc
	ctx    context.Context
}

func openPubSub() *pubsub {
	p := &pubsub{server: pstest.NewServer()}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

func (p *pubsub) close() {
	p.stop()
	_ = p.server.Close()
}

// PubSub returns the gRPC address of the project's Pub/Sub, for PUBSUB_EMULATOR_HOST.
func (c *Cloud) PubSub() string { return c.pubsub().server.Addr }

// Publish publishes a message on a topic of the project, like Google's own services.
func (c *Cloud) Publish(topic string, data []byte, attributes map[string]string) {
	c.pubsub().server.Publish("projects/"+c.cfg.Project+"/topics/"+topic, data, attributes)
}

// Sink makes the audit log publish its entries about preempted machines on a topic of the project.
func (c *Cloud) Sink(topic string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sink = topic
}

// publishPreemption publishes that a machine is being preempted. Callers hold the lock.
func (c *Cloud) publishPreemption(m *instance) {
	if c.sink == "" {
		return
	}
	id := fmt.Sprint(m.record.Id)
	entry, err := json.Marshal(map[string]any{
		"insertId": "preempted-" + id, "timestamp": c.cfg.Now().UTC().Format(time.RFC3339Nano),
		"logName": "projects/" + c.cfg.Project + "/logs/cloudaudit.googleapis.com%2Fsystem_event",
		"protoPayload": map[string]string{
			"@type": "type.googleapis.com/google.cloud.audit.AuditLog", "serviceName": "compute.googleapis.com",
			"methodName":   "compute.instances.preempted",
			"resourceName": "projects/" + c.cfg.Project + "/zones/" + m.zone() + "/instances/" + m.record.Name,
		},
		"resource": map[string]any{"type": "gce_instance", "labels": map[string]string{"instance_id": id}},
	})
	if err == nil {
		c.Publish(c.sink, entry, map[string]string{"logging.googleapis.com/timestamp": "now"})
	}
}

// askPubSub executes a request for topics and subscriptions. Their policies are stored like those of other resources.
func (c *Cloud) askPubSub(r *call) (json.RawMessage, *Fault, error) {
	g, name := &c.pubsub().server.GServer, r.name()
	switch _, what, _ := strings.Cut(r.method.ID, ".projects."); what {
	case "topics.create":
		in := &pubsubpb.Topic{}
		return forward(r.Context(), r.body, in, func() { in.Name = name }, g.CreateTopic)
	case "topics.get":
		return forward(r.Context(), nil, &pubsubpb.GetTopicRequest{Topic: name}, nil, g.GetTopic)
	case "topics.delete":
		return forward(r.Context(), nil, &pubsubpb.DeleteTopicRequest{Topic: name}, nil, g.DeleteTopic)
	case "topics.publish":
		in := &pubsubpb.PublishRequest{}
		return forward(r.Context(), r.body, in, func() { in.Topic = name }, g.Publish)
	case "subscriptions.create":
		in := &pubsubpb.Subscription{}
		text, f, err := forward(r.Context(), r.body, in, func() { in.Name = name }, g.CreateSubscription)
		if f == nil && err == nil {
			go c.push(name)
		}
		return text, f, err
	case "subscriptions.get":
		in := &pubsubpb.GetSubscriptionRequest{Subscription: name}
		return forward(r.Context(), nil, in, nil, g.GetSubscription)
	case "subscriptions.delete":
		in := &pubsubpb.DeleteSubscriptionRequest{Subscription: name}
		return forward(r.Context(), nil, in, nil, g.DeleteSubscription)
	case "subscriptions.modifyPushConfig":
		in := &pubsubpb.ModifyPushConfigRequest{}
		return forward(r.Context(), r.body, in, func() { in.Subscription = name }, c.modifyPush)
	case "subscriptions.pull":
		in := &pubsubpb.PullRequest{}
		return forward(r.Context(), r.body, in, func() { in.Subscription = name }, g.Pull)
	case "subscriptions.acknowledge":
		in := &pubsubpb.AcknowledgeRequest{}
		return forward(r.Context(), r.body, in, func() { in.Subscription = name }, g.Acknowledge)
	}
	return nil, &Fault{Code: http.StatusNotImplemented, Reason: "notImplemented", Message: r.method.ID}, nil
}

// modifyPush calls the fake's method, which has another name.
func (c *Cloud) modifyPush(ctx context.Context, in *pubsubpb.ModifyPushConfigRequest) (*emptypb.Empty, error) {
	_, err := c.pubsub().server.GServer.UpdateSubscription(ctx, &pubsubpb.UpdateSubscriptionRequest{
		Subscription: &pubsubpb.Subscription{Name: in.GetSubscription(), PushConfig: in.GetPushConfig()},
		UpdateMask:   &fieldmaskpb.FieldMask{Paths: []string{"push_config"}},
	})
	return &emptypb.Empty{}, err
}

// forward decodes a request from JSON, sets its resource name with name, calls ask, and encodes the answer as JSON.
func forward[In, Out proto.Message](ctx context.Context, body []byte, in In, name func(),
	ask func(context.Context, In) (Out, error)) (json.RawMessage, *Fault, error) {
	if len(body) > 0 {
		if err := protojson.Unmarshal(body, in); err != nil {
			return nil, invalid("%v", err), nil
		}
	}
	if name != nil {
		name()
	}
	out, err := ask(ctx, in)
	if err != nil {
		return nil, rpcFault(err), nil
	}
	text, err := protojson.Marshal(out)
	return text, nil, err
}

// rpcFault converts a gRPC error to that of the JSON APIs (google.rpc.Code).
func rpcFault(err error) *Fault {
	f := &Fault{Code: http.StatusInternalServerError, Status: "INTERNAL", Message: status.Convert(err).Message()}
	switch status.Code(err) {
	case codes.NotFound:
		f.Code, f.Reason, f.Status = http.StatusNotFound, "notFound", "NOT_FOUND"
	case codes.AlreadyExists:
		f.Code, f.Reason, f.Status = http.StatusConflict, "alreadyExists", "ALREADY_EXISTS"
	case codes.InvalidArgument:
		f.Code, f.Reason, f.Status = http.StatusBadRequest, "badRequest", "INVALID_ARGUMENT"
	case codes.Canceled, codes.DeadlineExceeded:
		f.Code, f.Reason, f.Status = http.StatusGatewayTimeout, "timeout", "DEADLINE_EXCEEDED"
	}
	return f
}

// push sends the messages of a subscription to its address, with retries, as long as it has an address.
func (c *Cloud) push(name string) {
	p := c.pubsub()
	g := &p.server.GServer
	for p.ctx.Err() == nil {
		s, err := g.GetSubscription(p.ctx, &pubsubpb.GetSubscriptionRequest{Subscription: name})
		if err != nil || s.GetPushConfig().GetPushEndpoint() == "" {
			return
		}
		out, err := g.Pull(p.ctx, &pubsubpb.PullRequest{Subscription: name, MaxMessages: 10})
		if err != nil {
			return
		}
		for _, m := range out.GetReceivedMessages() {
			if !c.pushOne(p.ctx, s, m.GetMessage()) { // redelivered a second later
				_, _ = g.ModifyAckDeadline(p.ctx, &pubsubpb.ModifyAckDeadlineRequest{Subscription: name,
					AckIds: []string{m.GetAckId()}, AckDeadlineSeconds: 1})
				continue
			}
			_, _ = g.Acknowledge(p.ctx, &pubsubpb.AcknowledgeRequest{Subscription: name,
				AckIds: []string{m.GetAckId()}})
		}
	}
}

// pushOne sends one message, wrapped like Pub/Sub ("Receive push messages"), and returns whether it was accepted.
func (c *Cloud) pushOne(ctx context.Context, s *pubsubpb.Subscription, m *pubsubpb.PubsubMessage) bool {
	body, err := json.Marshal(map[string]any{
		"message": map[string]any{
			"data": m.GetData(), "attributes": m.GetAttributes(), "messageId": m.GetMessageId(),
			"publishTime": m.GetPublishTime().AsTime().Format(time.RFC3339Nano),
		},
		"subscription": s.GetName(),
	})
	if err != nil {
		return false
	}
	endpoint := s.GetPushConfig().GetPushEndpoint()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	if who := s.GetPushConfig().GetOidcToken(); who != nil {
		signer, err := c.signer()
		if err != nil {
			return false
		}
		audience := who.GetAudience()
		if audience == "" {
			audience = endpoint
		}
		req.Header.Set("Authorization", "Bearer "+signer.AccountToken(who.GetServiceAccountEmail(), audience))
	}
	resp, err := http.DefaultClient.Do(req) //nolint:gosec // the subscription's address
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return resp.Body.Close() == nil && resp.StatusCode < http.StatusMultipleChoices
}
