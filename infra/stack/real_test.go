package stack

import (
	"slices"
	"testing"
)

// Lambda polls with a function's role, and refuses to make a mapping whose role may not (Lambda developer guide,
// "Tutorial: Using AWS Lambda with Amazon DynamoDB streams" and "Configuring an Amazon SQS queue"). Emulators do not.
func TestWhatFeedsAFunctionItsRoleMayRead(t *testing.T) {
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
