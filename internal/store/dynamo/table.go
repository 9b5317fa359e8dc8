package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes of an item. Their names are part of its size, so they are short.
const (
	AttrPartition = "pk" // S: the record's partition, or OutboxPrefix and a shard
	AttrSort      = "sk" // S: the record's sort key
	attrVersion   = "v"  // N
	attrBody      = "b"  // B: the record's body, or packed events; absent when empty
	attrDeflated  = "z"  // B: the record's body as a DEFLATE stream, where that saves a write unit; b is then absent
	AttrExpires   = "ttl"
	attrToken     = "t" // B: identifies the request that put the item, if the transaction has only this item
	attrDone      = "d" // NS: positions of the published events of an outbox item
)

// OutboxPrefix starts the partition key of exactly those items that hold events. The stream's filter for the
// relay selects this prefix and the event name INSERT.
const OutboxPrefix = "outbox#"

// StreamView is the stream view that the relay needs: items after the change.
const StreamView = types.StreamViewTypeNewImage

// TableInput describes the table for the deployment and for the tests: its keys, on-demand
// billing and the stream. Time to live (TimeToLiveInput) and point-in-time recovery are
// switched on after the table is created.
func TableInput(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName: aws.String(name),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(AttrPartition), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(AttrSort), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(AttrPartition), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(AttrSort), KeyType: types.KeyTypeRange},
		},
		BillingMode:         types.BillingModePayPerRequest,
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: StreamView},
	}
}

// TimeToLiveInput lets DynamoDB remove records that have expired.
func TimeToLiveInput(name string) *dynamodb.UpdateTimeToLiveInput {
	return &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String(AttrExpires),
			Enabled: aws.Bool(true)},
	}
}

// CreateTable creates the table and returns when it is usable. It is for emulators and
// tests; a deployment creates its table from its template. An existing table is not an error.
func CreateTable(ctx context.Context, cfg aws.Config, name string) error {
	client := dynamodb.NewFromConfig(cfg)
	_, err := client.CreateTable(ctx, TableInput(name))
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("dynamo: create table %s: %w", name, err)
	}
	const within = time.Minute
	ready := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 50 * time.Millisecond
	})
	if err := ready.Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)}, within); err != nil {
		return fmt.Errorf("dynamo: table %s: %w", name, err)
	}
	if exists != nil {
		return nil
	}
	if _, err := client.UpdateTimeToLive(ctx, TimeToLiveInput(name)); err != nil {
		return fmt.Errorf("dynamo: time to live of table %s: %w", name, err)
	}
	return nil
}
