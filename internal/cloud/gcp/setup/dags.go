package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	crm "google.golang.org/api/cloudresourcemanager/v3"
	"google.golang.org/api/logging/v2"
	"google.golang.org/api/pubsub/v1"
	"google.golang.org/api/storage/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
)

// TopicName returns the name of the topic for notifications about files and machines, and of the subscription that
// delivers them.
func (s *Setup) TopicName() string { return "tradewind-" + s.cfg.Deployment }

// PushAccount returns the address of the account with which Pub/Sub pushes.
func (s *Setup) PushAccount() string {
	if s.cfg.PushAccount != "" {
		return s.cfg.PushAccount
	}
	return s.address(s.cfg.Deployment + "-push")
}

// dags returns the steps by which a bucket's files become jobs (Cloud Storage documentation, "Configure Pub/Sub
// notifications"): the bucket's service agent may publish on a topic, the bucket publishes new objects in the folder,
// and a subscription is pulled or pushes. The notification comes after the bucket and the rights that it needs, so it
// is removed before them. With removed, the steps also include what was made for the other way of delivery.
func (s *Setup) dags(removed bool) []step {
	if s.bucket == "" {
		return nil
	}
	all := []step{s.topic(), s.agentPublishes(), s.sink(), s.sinkPublishes(), s.makeBucket(), s.notification()}
	all = append(all, s.bucketBinding("roles/storage.objectUser", s.member()))
	pushed := s.cfg.PushURL != ""
	if s.cfg.PushAccount == "" && (pushed || removed) {
		all = append(all, s.account(s.cfg.Deployment+"-push", "Pushes to "+s.cfg.Deployment+", without any role"))
	}
	// Functions cannot wait for messages. Pub/Sub pushes messages to them, once their address is known.
	if pushed || removed || s.cfg.AWSAccount == "" {
		all = append(all, s.subscription(removed))
	}
	if !pushed && !removed && s.cfg.AWSAccount == "" {
		all = append(all, s.pubsubBinding("subscriptions", "roles/pubsub.subscriber", s.member()))
	}
	return all
}

func (s *Setup) topicPath() string { return "projects/" + s.cfg.Project + "/topics/" + s.TopicName() }

func (s *Setup) topic() step {
	topics := func() *pubsub.ProjectsTopicsService { return s.pubsub.Projects.Topics }
	return step{
		name: "topic " + s.TopicName(), command: s.gcloud("pubsub topics create %s", s.TopicName()),
		undo: s.gcloud("pubsub topics delete %s", s.TopicName()),
		look: func(ctx context.Context) (bool, error) {
			_, err := topics().Get(s.topicPath()).Context(ctx).Do()
			return found(err)
		},
		make: func(ctx context.Context) error {
			_, err := topics().Create(s.topicPath(), &pubsub.Topic{}).Context(ctx).Do()
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := topics().Delete(s.topicPath()).Context(ctx).Do()
			return err
		},
	}
}

// agentPublishes lets the project's Cloud Storage service agent publish on the topic. Google names the agent, and
// creates it when it is first requested.
func (s *Setup) agentPublishes() step {
	const role = "roles/pubsub.publisher"
	member := "serviceAccount:" + s.agent
	if s.agent == "" { // for printing
		member = "serviceAccount:service-PROJECT_NUMBER@gs-project-accounts.iam.gserviceaccount.com"
	}
	return s.pubsubBinding("topics", role, member)
}

// sink passes the audit log's entries about lost machines to the topic (Cloud Logging documentation, "Route logs to
// supported destinations").
func (s *Setup) sink() step {
	sinks := func() *logging.ProjectsSinksService { return s.logging.Projects.Sinks }
	path := "projects/" + s.cfg.Project + "/sinks/" + s.TopicName()
	destination := "pubsub.googleapis.com/" + s.topicPath()
	return step{
		name:    "log sink " + s.TopicName(),
		command: s.gcloud("logging sinks create %s %s --log-filter '%s'", s.TopicName(), destination, gcp.NoticeFilter),
		undo:    s.gcloud("logging sinks delete %s", s.TopicName()),
		look: func(ctx context.Context) (bool, error) {
			_, err := sinks().Get(path).Context(ctx).Do()
			return found(err)
		},
		make: func(ctx context.Context) error {
			_, err := sinks().Create("projects/"+s.cfg.Project, &logging.LogSink{
				Name: s.TopicName(), Destination: destination, Filter: gcp.NoticeFilter,
			}).UniqueWriterIdentity(true).Context(ctx).Do()
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := sinks().Delete(path).Context(ctx).Do()
			return err
		},
	}
}

// sinkPublishes lets the sink's writer publish on the topic. It is the project's Cloud Logging service agent.
func (s *Setup) sinkPublishes() step {
	number := s.number
	if number == "" { // for printing
		number = "PROJECT_NUMBER"
	}
	return s.pubsubBinding("topics", "roles/pubsub.publisher",
		"serviceAccount:service-"+number+"@gcp-sa-logging.iam.gserviceaccount.com")
}

// pubsubBinding grants a role on the topic or the subscription only.
func (s *Setup) pubsubBinding(what, role, member string) step {
	path := "projects/" + s.cfg.Project + "/" + what + "/" + s.TopicName()
	p := policy{
		get: func(ctx context.Context) (*crm.Policy, error) {
			var now *pubsub.Policy
			var err error
			if what == "topics" {
				now, err = s.pubsub.Projects.Topics.GetIamPolicy(path).OptionsRequestedPolicyVersion(3).
					Context(ctx).Do()
			} else {
				now, err = s.pubsub.Projects.Subscriptions.GetIamPolicy(path).OptionsRequestedPolicyVersion(3).
					Context(ctx).Do()
			}
			if err != nil {
				return nil, err
			}
			return convert[crm.Policy](now)
		},
		set: func(ctx context.Context, to *crm.Policy) error {
			next, err := convert[pubsub.Policy](to)
			if err != nil {
				return err
			}
			in := &pubsub.SetIamPolicyRequest{Policy: next}
			if what == "topics" {
				_, err = s.pubsub.Projects.Topics.SetIamPolicy(path, in).Context(ctx).Do()
			} else {
				_, err = s.pubsub.Projects.Subscriptions.SetIamPolicy(path, in).Context(ctx).Do()
			}
			return err
		},
	}
	return p.step(role, member,
		"gcloud pubsub "+what+" %s-iam-policy-binding "+s.TopicName()+" --project "+s.cfg.Project)
}

// makeBucket creates the bucket if it is missing. The bucket is not removed with the other resources, because its
// content belongs to the user.
func (s *Setup) makeBucket() step {
	location := strings.ToUpper(s.cfg.Location)
	command := s.gcloud("storage buckets create gs://%s --uniform-bucket-level-access", s.bucket)
	if location != "" {
		command += " --location " + location
	}
	return step{
		name: "bucket " + s.bucket, command: command,
		look: func(ctx context.Context) (bool, error) {
			_, err := s.storage.Buckets.Get(s.bucket).Context(ctx).Do()
			return found(err)
		},
		make: func(ctx context.Context) error {
			b := &storage.Bucket{Name: s.bucket, Location: location, IamConfiguration: &storage.BucketIamConfiguration{
				UniformBucketLevelAccess: &storage.BucketIamConfigurationUniformBucketLevelAccess{Enabled: true},
			}}
			_, err := s.storage.Buckets.Insert(s.cfg.Project, b).Context(ctx).Do()
			return err
		},
	}
}

// notification makes the bucket publish each new object in the folder.
func (s *Setup) notification() step {
	const event = "OBJECT_FINALIZE"
	topic := "//pubsub.googleapis.com/" + s.topicPath()
	ours := func(ctx context.Context) (*storage.Notification, error) {
		list, err := s.storage.Notifications.List(s.bucket).Context(ctx).Do()
		if there, err := found(err); !there {
			return nil, err
		}
		for _, n := range list.Items {
			if n.Topic == topic && n.ObjectNamePrefix == s.prefix && n.PayloadFormat == "JSON_API_V1" &&
				slices.Equal(n.EventTypes, []string{event}) {
				return n, nil
			}
		}
		return nil, nil
	}
	command := fmt.Sprintf("gcloud storage buckets notifications create gs://%s --topic %s --event-types %s "+
		"--payload-format json", s.bucket, s.topicPath(), event)
	if s.prefix != "" {
		command += " --object-prefix " + s.prefix
	}
	return step{
		name: "notification of gs://" + s.bucket + "/" + s.prefix, command: command,
		undo: fmt.Sprintf("gcloud storage buckets notifications delete gs://%s", s.bucket),
		look: func(ctx context.Context) (bool, error) {
			n, err := ours(ctx)
			return n != nil, err
		},
		make: func(ctx context.Context) error {
			_, err := s.storage.Notifications.Insert(s.bucket, &storage.Notification{
				Topic: topic, EventTypes: []string{event}, PayloadFormat: "JSON_API_V1", ObjectNamePrefix: s.prefix,
			}).Context(ctx).Do()
			return err
		},
		remove: func(ctx context.Context) error {
			n, err := ours(ctx)
			if err != nil || n == nil {
				return err
			}
			return s.storage.Notifications.Delete(s.bucket, n.Id).Context(ctx).Do()
		},
	}
}

// bucketBinding grants a role on the bucket only.
func (s *Setup) bucketBinding(role, member string) step {
	p := policy{
		get: func(ctx context.Context) (*crm.Policy, error) {
			now, err := s.storage.Buckets.GetIamPolicy(s.bucket).OptionsRequestedPolicyVersion(3).Context(ctx).Do()
			if err != nil {
				return nil, err
			}
			return convert[crm.Policy](now)
		},
		set: func(ctx context.Context, to *crm.Policy) error {
			next, err := convert[storage.Policy](to)
			if err != nil {
				return err
			}
			_, err = s.storage.Buckets.SetIamPolicy(s.bucket, next).Context(ctx).Do()
			return err
		},
	}
	return p.step(role, member, "gcloud storage buckets %s-iam-policy-binding gs://"+s.bucket)
}

// Times in seconds: until an unacknowledged message is delivered again, and for which an undelivered message is kept.
const (
	ackSeconds = 60
	keptFor    = "604800s"
)

// subscription delivers the notifications. It does not expire, even if no file arrives for a long time. A
// subscription with another way of delivery is changed by Add, and removed by Remove.
func (s *Setup) subscription(removed bool) step {
	path := "projects/" + s.cfg.Project + "/subscriptions/" + s.TopicName()
	subscriptions := func() *pubsub.ProjectsSubscriptionsService { return s.pubsub.Projects.Subscriptions }
	command := s.gcloud("pubsub subscriptions create %s --topic %s --ack-deadline %d --expiration-period never "+
		"--message-retention-duration 7d", s.TopicName(), s.TopicName(), ackSeconds)
	var to *pubsub.PushConfig
	if s.cfg.PushURL != "" {
		endpoint := strings.TrimSuffix(s.cfg.PushURL, "/") + push.Path + "gcp"
		to = &pubsub.PushConfig{PushEndpoint: endpoint, OidcToken: &pubsub.OidcToken{
			Audience: endpoint, ServiceAccountEmail: s.PushAccount()}}
		command += fmt.Sprintf(" --push-endpoint %s --push-auth-service-account %s --push-auth-token-audience %s",
			endpoint, s.PushAccount(), endpoint)
	}
	same := func(now *pubsub.PushConfig) bool {
		if to == nil || now == nil {
			return to == nil && (now == nil || now.PushEndpoint == "")
		}
		return now.PushEndpoint == to.PushEndpoint && now.OidcToken != nil &&
			now.OidcToken.Audience == to.OidcToken.Audience &&
			now.OidcToken.ServiceAccountEmail == to.OidcToken.ServiceAccountEmail
	}
	return step{
		name: "subscription " + s.TopicName(), command: command,
		undo: s.gcloud("pubsub subscriptions delete %s", s.TopicName()),
		look: func(ctx context.Context) (bool, error) {
			now, err := subscriptions().Get(path).Context(ctx).Do()
			if there, err := found(err); !there {
				return false, err
			}
			return removed || same(now.PushConfig), nil
		},
		make: func(ctx context.Context) error {
			_, err := subscriptions().Get(path).Context(ctx).Do()
			if there, err := found(err); err != nil {
				return err
			} else if there {
				change := &pubsub.ModifyPushConfigRequest{PushConfig: to}
				if to == nil {
					change.PushConfig = &pubsub.PushConfig{}
				}
				_, err := subscriptions().ModifyPushConfig(path, change).Context(ctx).Do()
				return err
			}
			_, err = subscriptions().Create(path, &pubsub.Subscription{
				Topic: s.topicPath(), AckDeadlineSeconds: ackSeconds, ExpirationPolicy: &pubsub.ExpirationPolicy{},
				MessageRetentionDuration: keptFor, PushConfig: to,
			}).Context(ctx).Do()
			return err
		},
		remove: func(ctx context.Context) error {
			_, err := subscriptions().Delete(path).Context(ctx).Do()
			return err
		},
	}
}

// readPlace parses the place of the files that become jobs.
func (s *Setup) readPlace() error {
	bucket, prefix, err := driver.DAGPlace(s.cfg.DAGs)
	s.bucket, s.prefix = strings.TrimPrefix(bucket, driver.DAGScheme), prefix
	return err
}
