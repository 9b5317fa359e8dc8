package account

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const tableType = "AWS::DynamoDB::Table"

// readyWithin is the maximum time for the creation of a table.
const readyWithin = time.Minute

// tables creates the template's tables like CloudFormation: keys, billing, stream, protection and time to live are as
// configured. DynamoDB Local has no point-in-time recovery. It returns the ARN of the only stream.
func (t *Template) tables(ctx context.Context, client *dynamodb.Client) (stream string, err error) {
	for id, r := range t.rawResources() {
		if r["Type"] != tableType {
			continue
		}
		arn, err := makeTable(ctx, client, t.value(r["Properties"]))
		if err != nil {
			return "", fmt.Errorf("rehearsal: table %s of the template: %w", id, err)
		}
		if stream != "" && arn != "" {
			return "", fmt.Errorf("rehearsal: table %s of the template: a second stream", id)
		}
		stream += arn
	}
	return stream, nil
}

func makeTable(ctx context.Context, client *dynamodb.Client, properties any) (stream string, err error) {
	raw, err := json.Marshal(properties)
	if err != nil {
		return "", err
	}
	// The template has the same fields as the API, plus some others.
	var in dynamodb.CreateTableInput
	var own struct {
		TimeToLiveSpecification *types.TimeToLiveSpecification
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return "", err
	}
	if err := json.Unmarshal(raw, &own); err != nil {
		return "", err
	}
	if in.StreamSpecification != nil {
		in.StreamSpecification.StreamEnabled = aws.Bool(true)
	}
	if _, err := client.CreateTable(ctx, &in); err != nil {
		return "", err
	}
	named := &dynamodb.DescribeTableInput{TableName: in.TableName}
	ready := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
	})
	made, err := ready.WaitForOutput(ctx, named, readyWithin)
	if err != nil {
		return "", err
	}
	if own.TimeToLiveSpecification != nil {
		_, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName: in.TableName, TimeToLiveSpecification: own.TimeToLiveSpecification,
		})
		if err != nil {
			return "", err
		}
	}
	return aws.ToString(made.Table.LatestStreamArn), nil
}
