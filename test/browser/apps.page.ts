import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import {
  AppBridge,
  buildAllowAttribute,
  getToolUiResourceUri,
  type McpUiResourceMeta,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
} from '@modelcontextprotocol/ext-apps/app-bridge';

/*
 * A host of MCP Apps, as far as a page of a test needs one: the official client, and the bridge of the extension's own package.
 */

/** What this page needs of the DOM, whose types the repository does without. */
declare const document: { createElement(name: 'iframe'): Frame; readonly body: { append(frame: Frame): void } };
interface Frame {
  allow: string;
  src: string;
  readonly style: { cssText: string };
  readonly contentWindow: object;
  setAttribute(name: string, value: string): void;
}

interface Shown {
  /** What the endpoint says of the view. */
  readonly meta: McpUiResourceMeta | undefined;
  readonly size: Promise<number | undefined>;
}

const globals = globalThis as unknown as { show: typeof show };

/**
 * Calls a tool and shows its result in the tool's view.
 *
 * @param sandbox where documents for frames are put, each behind the policy of its declaration
 */
async function show(endpoint: string, sandbox: string, name: string, args: Record<string, unknown>): Promise<Shown> {
  const capabilities = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: [RESOURCE_MIME_TYPE] } } };
  const client = new Client({ name: 'host', version: '1.0.0' }, { capabilities });
  await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)));
  const { tools } = await client.listTools();
  const uri = getToolUiResourceUri(tools.find((tool) => tool.name === name)!)!;
  const { contents } = await client.readResource({ uri });
  const { text, _meta } = contents[0] as { text: string; _meta?: { ui?: McpUiResourceMeta } };
  const meta = _meta?.ui;
  const put = await fetch(sandbox, { method: 'PUT', body: JSON.stringify({ html: text, csp: meta?.csp ?? {} }) });
  const frame = document.createElement('iframe');
  frame.setAttribute('sandbox', 'allow-scripts');
  frame.allow = buildAllowAttribute(meta?.permissions);
  frame.style.cssText = 'width: 420px; height: 260px; border: 0';
  document.body.append(frame);
  const bridge = new AppBridge(
    client,
    { name: 'host', version: '1.0.0' },
    { serverTools: {}, logging: {} },
    { hostContext: { theme: 'light' } },
  );
  const initialized = new Promise<void>((resolve) => {
    bridge.oninitialized = () => resolve();
  });
  const size = new Promise<number | undefined>((resolve) => {
    bridge.onsizechange = ({ height }) => resolve(height);
  });
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = await put.text();
  await initialized;
  const result = await client.callTool({ name, arguments: args });
  await bridge.sendToolInput({ arguments: args });
  await bridge.sendToolResult(result);
  return { meta, size };
}

globals.show = show;
