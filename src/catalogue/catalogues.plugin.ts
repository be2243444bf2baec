import { EndpointClasses } from '../core/handlers/discovery/endpoint-classes.js';
import { RegisteredEntries } from '../core/handlers/registry/registered-entries.js';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { CATALOGUE, type ResolvedCatalogueOptions } from './catalogue.decorators.js';
import { CatalogueChanges } from './catalogue-changes.js';
import { ToolCatalogue } from './tool-catalogue.js';
import { ToolCatalogues } from './tool-catalogues.js';

/** Serves the tools that classes with `@McpCatalogue()` list for each caller. It acts on no calls. */
export class CataloguesPlugin extends McpPlugin {
  readonly ring = 'app';

  /** @throws McpHandlerDefinitionError for a class that cannot be a catalogue */
  attach(endpoint: McpEndpointHost): McpEndpointPlugin | undefined {
    const classes = endpoint.get(EndpointClasses).marked<ResolvedCatalogueOptions>(CATALOGUE);
    if (classes.length === 0) return undefined;
    const entries = endpoint.get(RegisteredEntries);
    const catalogues = classes.map((provider) => new ToolCatalogue(provider, entries, endpoint.clock));
    const changes = new CatalogueChanges(catalogues, endpoint);
    endpoint.serve(new ToolCatalogues(catalogues, changes));
    return changes;
  }
}
