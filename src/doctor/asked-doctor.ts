import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin, ToolExaminer } from '../core/plugins/mcp-plugin.js';
import type { McpFinding } from './diagnosis.js';

/** Examines the tools of an endpoint without the option `doctor`: when it is asked, as by the live page. Until then, no rule is loaded. */
export class AskedDoctorPlugin extends McpPlugin {
  readonly ring = 'limit';

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    const doctor: object = new AskedDoctor(endpoint);
    return doctor;
  }
}

class AskedDoctor extends ToolExaminer {
  constructor(private readonly host: McpEndpointHost) {
    super();
  }

  async findings(): Promise<readonly McpFinding[]> {
    const { diagnoseEndpoint } = await import('./diagnosis.js');
    return diagnoseEndpoint(this.host).findings;
  }
}
