import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  ToolExaminer,
} from '../core/plugins/mcp-plugin.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { Offer } from '../core/plugins/offer.js';
import { StartLog } from '../core/http/start-log.js';
import { logger } from '../core/calls/operator-log.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import { diagnoseTools, largeResult, type McpDiagnosis, worstFirst } from './diagnosis.js';
import { findingLines } from './finding-lines.js';
import { issuerFindings } from './oauth-metadata.js';
import { MAX_RESULT_BYTES, MAX_RESULT_TOKENS, tokensOfResult } from './tokens.js';
import { HandlerTable } from '../core/handlers/registry/handler-table.js';

/** The log names so many findings. */
const NAMED = 3;

interface DoctorOptions {
  readonly doctor: boolean;
  readonly auth?: { readonly authorizationServers: readonly string[] } | undefined;
}

/**
 * Examines the tools of an endpoint, and observes how large their results are.
 *
 * A result is measured only if its answer exceeds the limit in bytes: that comparison is all that a call costs. Without the
 * option `doctor` there is none.
 */
@Injectable()
export class EndpointDoctor {
  /** The largest result of each tool that exceeded the limit, in tokens. */
  readonly #largest = new Map<string, number>();
  constructor(
    @Inject(MCP_OPTIONS) private readonly options: DoctorOptions,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(Offer) private readonly offer: Offer,
  ) {}

  /** Observes the results of tools without a limit of their own, if the option `doctor` is on. */
  get plugin(): McpPlugin {
    return new DoctorPlugin(this);
  }

  get observes(): boolean {
    return this.options.doctor;
  }

  /** Examines the tools of all callers, and the results that were observed. */
  diagnosis(): McpDiagnosis {
    return diagnoseTools([...this.table.all('tool')], this.#largest);
  }

  /** Logs the worst findings, if the option `doctor` is on. @param endpoint names it, such as `MCP endpoint at /mcp` */
  logAtStart(endpoint: string): void {
    const { doctor, auth } = this.options;
    if (!doctor || this.offer.serves === 'servers') return;
    const { findings } = this.diagnosis();
    const log = (all: McpDiagnosis['findings']): void => {
      if (all.length > 0) logger.warn(startText(endpoint, worstFirst(all)));
    };
    if (!auth) return log(findings);
    void issuerFindings(auth.authorizationServers, fetch).then((found) => log([...found, ...findings]));
  }

  note(tool: string, result: object): void {
    const tokens = tokensOfResult(result);
    if (tokens <= MAX_RESULT_TOKENS) return;
    const known = this.#largest.get(tool);
    if (known === undefined) logger.warn(findingLines([largeResult(tool, tokens)])[0]!);
    this.#largest.set(tool, Math.max(known ?? 0, tokens));
  }
}

class DoctorPlugin extends McpPlugin {
  readonly ring = 'limit';

  constructor(private readonly doctor: EndpointDoctor) {
    super();
  }

  attach(host: McpEndpointHost): McpEndpointPlugin {
    const { listen$ } = host.get(ModuleRef).get(HttpAdapterHost, { strict: false });
    listen$.subscribe(() => this.doctor.logAtStart(host.get(StartLog).subject));
    return new ExaminedEndpoint(this.doctor);
  }
}

/** Observes how large results are: the comparison of a limit is all that a call costs. */
export class ExaminedEndpoint extends ToolExaminer implements McpEndpointPlugin {
  constructor(private readonly doctor: EndpointDoctor) {
    super();
  }

  diagnosis(): McpDiagnosis {
    return this.doctor.diagnosis();
  }

  findings(): Promise<McpDiagnosis['findings']> {
    return Promise.resolve(this.diagnosis().findings);
  }

  handler({ kind, key }: McpHandlerTarget): McpHandlerHooks | undefined {
    if (kind !== 'tool' || !this.doctor.observes) return undefined;
    const insteadOf = (result: object): object => {
      this.doctor.note(key, result);
      return result;
    };
    return { bound: { maxBytes: MAX_RESULT_BYTES, insteadOf } };
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
