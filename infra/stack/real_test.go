package stack

import (
	"fmt"
	"slices"
	"testing"
)

// Lambda polls with a function's role, and does not create a mapping if the role lacks the rights (Lambda developer guide,
// "Tutorial: Using AWS Lambda with Amazon DynamoDB streams" and "Configuring an Amazon SQS queue"). Emulators do not check this.
func TestRolesMayReadEventSources(t *testing.T) {
	d := deployed()(t)
	of := map[string]string{} // role by function
	for id, f := range d.of("AWS::Lambda::Function") {
		of["<"+id+">"] = f.Properties["FunctionName"].(string)
	}
	for id, m := range d.of("AWS::Lambda::EventSourceMapping") {
		source := m.Properties["EventSourceArn"].(string)
		needs := []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"}
		if m.Properties["StartingPosition"] != nil {
			needs = []string{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator",
				"dynamodb:ListStreams"}
		}
		for _, action := range needs {
			if !slices.ContainsFunc(d.statements(), func(s statement) bool {
				return s.role == of[m.Properties["FunctionName"].(string)] && slices.Contains(s.actions, action) &&
					(slices.Contains(s.resources, source) || slices.Contains(s.resources, "*")) && s.condition == nil
			}) {
				t.Errorf("%s: its role may not %s of %s", id, action, source)
			}
		}
	}
}

// A topic's own policy replaces the default one, which allows the account's alarms to publish (Amazon SNS developer
// guide, "Allow Amazon CloudWatch to publish"). Without that right, alarms reach no one.
func TestAlarmsMayPublishToTheirTopic(t *testing.T) {
	d := deployed()(t)
	for id, a := range d.of("AWS::CloudWatch::Alarm") {
		for _, topic := range words(a.Properties["AlarmActions"]) {
			if !slices.ContainsFunc(d.topicStatements(topic), func(s map[string]any) bool {
				return s["Effect"] == "Allow" && slices.Contains(words(s["Action"]), "sns:Publish") &&
					fmt.Sprint(s["Principal"]) == "map[Service:cloudwatch.amazonaws.com]" &&
					fmt.Sprint(s["Condition"]) == "map[StringEquals:map[aws:SourceAccount:<AWS::AccountId>]]"
			}) {
				t.Errorf("%s may not publish to %s", id, topic)
			}
		}
	}
}

// topicStatements returns the statements of a topic's policy.
func (t template) topicStatements(topic string) (out []map[string]any) {
	for _, p := range t.of("AWS::SNS::TopicPolicy") {
		if slices.Contains(words(p.Properties["Topics"]), topic) {
			for _, s := range p.at("PolicyDocument", "Statement").([]any) {
				out = append(out, s.(map[string]any))
			}
		}
	}
	return out
}

// For a missing object, S3 answers 403 to a caller that may not list the bucket; emulators answer 404 (Amazon S3 API
// reference, GetObject). These functions continue if an object is missing, and warn or fail if access is denied.
func TestReadersOfOptionalObjectsMayListBucket(t *testing.T) {
	d := deployed()(t)
	work, _ := d.named(t, "AWS::S3::Bucket", "BucketName", "tradewind-work-${AWS::AccountId}-${AWS::Region}")
	for _, fn := range []string{"optimize", "refresh", "submit", "api"} {
		if !slices.ContainsFunc(d.statements(), func(s statement) bool {
			return s.role == "tradewind-"+fn && s.effect == "Allow" && slices.Contains(s.actions, "s3:ListBucket") &&
				slices.Contains(s.resources, "<"+work+".Arn>")
		}) {
			t.Errorf("%s gets 403 for a missing object", fn)
		}
	}
}
