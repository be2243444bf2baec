import { adviceOn } from '../../common/options.js';
import { shown } from '../../protocol/errors.js';
import { isObject } from '../../protocol/json-rpc.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import {
  type AppViewCsp,
  type AppViewOptions,
  type AppViewPermissions,
  type DescribedOptions,
  namesOf,
  type ResourceOptions,
  type ToolUi,
} from './handler-options.js';

/*
 * # MCP Apps: views of tools (SEP-1865, `io.modelcontextprotocol/ui`)
 *
 * A tool names a resource, and a host shows that document in a sandboxed frame, where it gets arguments and result of
 * the call. A view is a resource with its own media type; `_meta.ui` of its list entry and of its contents says what
 * its sandbox may do.
 */

export const APPS_EXTENSION = 'io.modelcontextprotocol/ui';

export const VIEW_MIME_TYPE = 'text/html;profile=mcp-app';

/** Repeats `_meta.ui.resourceUri` of a tool; hosts of the first drafts read no other key. */
const FLAT_URI_KEY = 'ui/resourceUri';

const CSP_NAMES = namesOf<AppViewCsp>({
  connectDomains: true,
  resourceDomains: true,
  frameDomains: true,
  baseUriDomains: true,
});
const PERMISSION_NAMES = namesOf<AppViewPermissions>({
  camera: true,
  microphone: true,
  geolocation: true,
  clipboardWrite: true,
});

/** Returns the resource of a view. @throws McpHandlerDefinitionError */
export function resourceOfView(options: AppViewOptions, origin: string): ResourceOptions {
  const { uri, csp, permissions, domain, prefersBorder, _meta, ...rest } = options;
  const refuse = refusalOf(origin);
  if (!isViewUri(uri)) throw refuse(`its "uri" must begin with "ui://"; got ${shown(uri)}.`);
  assertNamed('csp', csp, CSP_NAMES, origin);
  for (const [name, sources] of Object.entries(csp ?? {}) as [string, unknown][]) {
    if (Array.isArray(sources) && sources.every(isSource)) continue;
    const wanted =
      'an array of origins, such as "https://cdn.example.com", without spaces, quotes, commas and semicolons';
    throw refuse(`its "csp.${name}" must be ${wanted}; got ${shown(sources)}.`);
  }
  assertNamed('permissions', permissions, PERMISSION_NAMES, origin);
  for (const [name, settings] of Object.entries(permissions ?? {})) {
    if (!isObject(settings)) throw refuse(`its "permissions.${name}" must be {}; got ${shown(settings)}.`);
  }
  if (domain !== undefined && (typeof domain !== 'string' || domain === '')) {
    throw refuse(`its "domain" must be a non-empty string; got ${shown(domain)}.`);
  }
  if (prefersBorder !== undefined && typeof prefersBorder !== 'boolean') {
    throw refuse(`its "prefersBorder" must be true or false; got ${shown(prefersBorder)}.`);
  }
  const ui = { csp, permissions, domain, prefersBorder };
  const declared = Object.values(ui).some((value) => value !== undefined);
  return {
    name: uri.slice('ui://'.length),
    ...rest,
    uri,
    mimeType: VIEW_MIME_TYPE,
    ...withUi(_meta, declared ? ui : undefined, {}, origin),
  };
}

/** Returns `_meta` of a tool with its view. @throws McpHandlerDefinitionError */
export function metaOfTool(
  ui: string | ToolUi | undefined,
  meta: DescribedOptions['_meta'],
  origin: string,
): Pick<DescribedOptions, '_meta'> {
  if (ui === undefined) return { ...(meta && { _meta: meta }) };
  const given: unknown = typeof ui === 'string' ? { resourceUri: ui } : ui;
  assertNamed('ui', given, ['resourceUri', 'visibility'], origin);
  const { resourceUri, visibility } = given as ToolUi;
  const refuse = refusalOf(origin);
  if (resourceUri !== undefined && !isViewUri(resourceUri)) {
    throw refuse(`its view must be a URI that begins with "ui://"; got ${shown(resourceUri)}.`);
  }
  const known = Array.isArray(visibility) && visibility.every((each) => each === 'model' || each === 'app');
  if (visibility !== undefined && (!known || visibility.length === 0)) {
    throw refuse(`its "ui.visibility" must name "model", "app" or both; got ${shown(visibility)}.`);
  }
  return withUi(
    meta,
    { resourceUri, visibility },
    resourceUri === undefined ? {} : { [FLAT_URI_KEY]: resourceUri },
    origin,
  );
}

/** Returns the view that a tool names in its list entry. */
export function viewOf(meta: Readonly<Record<string, unknown>> | undefined): string | undefined {
  const ui = meta?.['ui'];
  const uri = isObject(ui) && ui['resourceUri'] !== undefined ? ui['resourceUri'] : meta?.[FLAT_URI_KEY];
  return typeof uri === 'string' ? uri : undefined;
}

/** Returns the part of the list entry of a view that its contents repeat: hosts read it from the contents. */
export function uiOfContents(
  mimeType: string | undefined,
  meta: Readonly<Record<string, unknown>> | undefined,
): object | undefined {
  const ui = mimeType === VIEW_MIME_TYPE ? meta?.['ui'] : undefined;
  return isObject(ui) ? ui : undefined;
}

function withUi(
  meta: DescribedOptions['_meta'],
  ui: object | undefined,
  more: object,
  origin: string,
): Pick<DescribedOptions, '_meta'> {
  if (!ui) return { ...(meta && { _meta: meta }) };
  if (meta && Object.hasOwn(meta, 'ui')) {
    throw new McpHandlerDefinitionError(
      origin,
      'its "_meta.ui" conflicts with its options for the user interface. Remove one of the two.',
    );
  }
  return { _meta: { ...meta, ui, ...more } };
}

/** Checks an option. @throws McpHandlerDefinitionError unless it is an object with these keys, or `undefined` */
function assertNamed(option: string, value: unknown, names: readonly string[], origin: string): void {
  if (value === undefined) return;
  const refuse = refusalOf(origin);
  if (!isObject(value)) throw refuse(`its "${option}" must be an object; got ${shown(value)}.`);
  const unknown = Object.keys(value).find((name) => !names.includes(name));
  if (unknown !== undefined) throw refuse(`there is no "${option}.${unknown}". ${adviceOn(unknown, names)}`);
}

function refusalOf(origin: string): (reason: string) => McpHandlerDefinitionError {
  return (reason) => new McpHandlerDefinitionError(origin, reason);
}

function isViewUri(uri: unknown): uri is string {
  return typeof uri === 'string' && uri.startsWith('ui://');
}

/** Returns whether a value is one source of a Content Security Policy, without any other directive. */
function isSource(source: unknown): boolean {
  return typeof source === 'string' && /^[^\s;,'"]+$/.test(source);
}
