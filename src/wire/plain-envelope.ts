import { CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, LOG_LEVEL_META_KEY } from './era.js';
import { isLogLevel } from './log-levels.js';

/**
 * Whether the `_meta` of a request, its version aside, is an envelope as clients send it, right beyond doubt (M2).
 *
 * It never takes what the schema of the specification does not; it may not take what the schema does. The schema is the
 * SDK's, and is asked only then: on the path of every request it would take as long as the call itself.
 *
 * @internal
 */
export function isPlainEnvelope(meta: Readonly<Record<string, unknown>>): boolean {
  const { [CLIENT_INFO_META_KEY]: info, [LOG_LEVEL_META_KEY]: level } = meta;
  return (
    arePlainCapabilities(meta[CLIENT_CAPABILITIES_META_KEY]) &&
    (info === undefined || isPlainInfo(info)) &&
    (level === undefined || isLogLevel(level))
  );
}

/** The same of the capabilities of a client. @internal */
export function arePlainCapabilities(capabilities: unknown): boolean {
  return isObject(capabilities) && Object.entries(capabilities).every(isPlainCapability);
}

function isPlainCapability([name, capability]: [string, unknown]): boolean {
  if (!isObject(capability)) return false;
  if (name === 'roots') return isFlag(capability['listChanged']);
  if (!Object.values(capability).every(isObject)) return false;
  const { form } = capability;
  return name !== 'elicitation' || form === undefined || isFlag((form as JsonObject)['applyDefaults']);
}

/** The same of the name and version of a client. @internal */
export function isPlainInfo(info: unknown): boolean {
  if (!isObject(info) || info['icons'] !== undefined) return false;
  const { name, version } = info;
  return name !== undefined && version !== undefined && Object.values(info).every((value) => typeof value === 'string');
}

function isFlag(value: unknown): boolean {
  return value === undefined || typeof value === 'boolean';
}

type JsonObject = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
