import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  ToolExaminer,
} from '../core/plugins/mcp-plugin.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { StartLog } from '../core/http/start-log.js';
import { logger } from '../core/calls/operator-log.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import { diagnoseEndpoint, largeResult, type McpDiagnosis, worstFirst } from './diagnosis.js';
import { findingLines } from './finding-lines.js';
import { issuerFindings } from './oauth-metadata.js';
import { MAX_RESULT_BYTES, MAX_RESULT_TOKENS, tokensOfResult } from './tokens.js';

/** The log names so many findings. */
const NAMED = 3;

/** The options of an endpoint that it reads. */
interface DoctorOptions {
  readonly auth?: { readonly authorizationServers: readonly string[] } | undefined;
}

/** Examines the tools of an endpoint, and observes how large their results are (option `doctor`). */
export class DoctorPlugin extends McpPlugin {
  readonly ring = 'limit';

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    return new EndpointDoctor(endpoint);
  }
}

/** A result is measured only if its answer exceeds the limit in bytes: that comparison is all that a call costs. */
export class EndpointDoctor extends ToolExaminer implements McpEndpointPlugin {
  /** The largest result of each tool that exceeded the limit, in tokens. */
  readonly #largest = new Map<string, number>();

  constructor(private readonly host: McpEndpointHost) {
    super();
    const { listen$ } = host.get(ModuleRef).get(HttpAdapterHost, { strict: false });
    listen$.subscribe(() => this.#logAtStart());
  }

  /** Examines the tools of all callers, and the results that were observed. */
  diagnosis(): McpDiagnosis {
    return diagnoseEndpoint(this.host, this.#largest);
  }

  findings(): Promise<McpDiagnosis['findings']> {
    return Promise.resolve(this.diagnosis().findings);
  }

  handler({ kind, key }: McpHandlerTarget): McpHandlerHooks | undefined {
    if (kind !== 'tool') return undefined;
    const insteadOf = (result: object): object => {
      this.#note(key, result);
      return result;
    };
    return { bound: { maxBytes: MAX_RESULT_BYTES, insteadOf } };
  }

  /** Logs the worst findings. */
  #logAtStart(): void {
    const { auth } = this.host.get<DoctorOptions>(MCP_OPTIONS);
    const { findings } = this.diagnosis();
    const log = (all: McpDiagnosis['findings']): void => {
      if (all.length > 0) logger.warn(startText(this.host.get(StartLog).subject, worstFirst(all)));
    };
    if (!auth) return log(findings);
    void issuerFindings(auth.authorizationServers, fetch).then((found) => log([...found, ...findings]));
  }

  #note(tool: string, result: object): void {
    const tokens = tokensOfResult(result);
    if (tokens <= MAX_RESULT_TOKENS) return;
    const known = this.#largest.get(tool);
    if (known === undefined) logger.warn(findingLines([largeResult(tool, tokens)])[0]!);
    this.#largest.set(tool, Math.max(known ?? 0, tokens));
  }
}

function startText(endpoint: string, findings: McpDiagnosis['findings']): string {
  const lines = findingLines(findings);
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  const count = `${findings.length} ${findings.length === 1 ? 'finding' : 'findings'}`;
  const refused = errors > 0 ? `; some clients refuse what ${errors} of them ${errors === 1 ? 'names' : 'name'}` : '';
  const rest = lines.length - NAMED;
  const more = rest > 0 ? `\n  … and those of ${rest} more ${rest === 1 ? 'rule' : 'rules'}.` : '';
  const how = 'See all with diagnose(app) of "nestjs-mcp-streamable/testing"; the option "doctor: false" ends this.';
  return `${endpoint}: the doctor has ${count}${refused}.\n${lines
    .slice(0, NAMED)
    .map((line) => `  ${line}`)
    .join('\n')}${more}\n  ${how}`;
}
