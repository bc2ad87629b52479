// The Go SDK's server: `go_sdk PORT`. Stateless, JSON.
// pinned: github.com/modelcontextprotocol/go-sdk@v1.8.0
package main

import (
	"context"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type arguments struct {
	Text string `json:"text"`
}

func answer(wait time.Duration) mcp.ToolHandlerFor[arguments, any] {
	return func(_ context.Context, _ *mcp.CallToolRequest, found arguments) (*mcp.CallToolResult, any, error) {
		time.Sleep(wait)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: found.Text}}}, nil, nil
	}
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Return the text."}, answer(0))
	mcp.AddTool(server, &mcp.Tool{Name: "slow", Description: "Return the text after a second."}, answer(time.Second))
	handler := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true},
	)
	http.Handle("/mcp", handler)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
