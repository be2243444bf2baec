import { McpUiResourceMetaSchema, McpUiToolMetaSchema, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps';
import { getToolUiResourceUri, isToolVisibilityAppOnly } from '@modelcontextprotocol/ext-apps/app-bridge';
import { EXTENSION_ID, getUiCapability } from '@modelcontextprotocol/ext-apps/server';
import { Inject, Injectable, type OnModuleInit, type Type, UseGuards } from '@nestjs/common';
import {
  AppView,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpRegistry,
  McpStreamableModule,
  Resource,
  ResourceTemplate,
  Tool,
  type ToolOptions,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { SalesTools } from '../../examples/apps/sales.tools.js';
import { ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';
import { officialClients, registryOf, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';

const DECLARED = {
  csp: {
    connectDomains: ['https://api.example.com', 'wss://live.example.com'],
    resourceDomains: ['https://*.example.com'],
    frameDomains: ['https://player.example.com'],
    baseUriDomains: ['https://cdn.example.com'],
  },
  permissions: { camera: {}, clipboardWrite: {} },
  domain: 'a904794854a047f6.claudemcpcontent.com',
  prefersBorder: true,
};

@Injectable()
class ViewTools {
  @AppView({ uri: 'ui://weather/map', title: 'Map', ...DECLARED, _meta: { build: 7 } })
  map(): string {
    return '<!doctype html><p>Map</p>';
  }
  /** Its contents say themselves what their sandbox may do. */
  @AppView({ uri: 'ui://weather/own', name: 'own', prefersBorder: false })
  own(): object {
    return { text: '<p>own</p>', _meta: { ui: { prefersBorder: true } } };
  }
  @AppView({ uri: 'ui://weather/plain' })
  plain(): string {
    return '<p>plain</p>';
  }
  @ResourceTemplate({
    uriTemplate: 'ui://city/{name}',
    name: 'city',
    mimeType: RESOURCE_MIME_TYPE,
    _meta: { ui: { prefersBorder: true } },
  })
  city(): string {
    return '<p>city</p>';
  }
  @Tool({ name: 'weather', ui: 'ui://weather/map', _meta: { team: 'sky' } })
  weather(@McpCtx() ctx: McpContext): string {
    const { mimeTypes = [] } = ctx.clientSupports('io.modelcontextprotocol/ui') ?? {};
    return (mimeTypes as string[]).includes(RESOURCE_MIME_TYPE) ? 'A view shows it.' : 'It rains.';
  }
  @Tool({ name: 'zoom', ui: { resourceUri: 'ui://city/Paris', visibility: ['app'] } })
  zoom(): string {
    return 'zoomed';
  }
  @Tool({ name: 'helper', ui: { visibility: ['app'] } })
  helper(): string {
    return 'helped';
  }
  @Tool({ name: 'bare' })
  bare(): string {
    return 'bare';
  }
}

@Injectable()
class ForViews {
  @UseGuards({
    canActivate: (context) => !!McpExecutionContext.create(context).getContext().clientSupports(EXTENSION_ID),
  })
  @Tool({ name: 'for_views', ui: { visibility: ['app'] } })
  forViews(): string {
    return 'for views';
  }
}

/** Registers at the start what tools name. */
@Injectable()
class LateView implements OnModuleInit {
  constructor(@Inject(McpRegistry) private readonly registry: McpRegistry) {}
  onModuleInit(): void {
    this.registry.registerTool({ name: 'late', ui: 'ui://late', handler: () => 'late' });
    const mimeType = RESOURCE_MIME_TYPE;
    this.registry.registerResource({ uri: 'ui://late', name: 'late', mimeType, handler: () => '<p>late</p>' });
  }
}

describe.each(ONE_ADAPTER)('MCP Apps on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [ViewTools, SalesTools] });
  const startBare = testApps(adapter, { shared: true });
  const connect = officialClients();

  it('X4: tools name their view in both forms, as the schemas of the extension have them', async () => {
    const client = await connect(await start());
    const tools = new Map((await client.listTools()).tools.map((tool) => [tool.name, tool]));
    expect(tools.get('weather')!._meta).toEqual({
      team: 'sky',
      ui: { resourceUri: 'ui://weather/map' },
      'ui/resourceUri': 'ui://weather/map',
    });
    expect(tools.get('bare')).not.toHaveProperty('_meta');
    expect(tools.get('helper')!._meta).toEqual({ ui: { visibility: ['app'] } });
    for (const name of ['weather', 'zoom', 'helper', 'show_sales']) {
      const { ui } = tools.get(name)!._meta!;
      // The schema strips what it does not know.
      expect(McpUiToolMetaSchema.parse(ui)).toEqual(ui);
    }
    expect(getToolUiResourceUri(tools.get('zoom')!)).toBe('ui://city/Paris');
    expect(isToolVisibilityAppOnly(tools.get('zoom')!)).toBe(true);
  });

  it('X5: views declare the permissions of their sandbox, in lists and in contents', async () => {
    const client = await connect(await start());
    const { resources } = await client.listResources();
    const listed = resources.find(({ uri }) => uri === 'ui://weather/map')!;
    expect(listed).toEqual({
      uri: 'ui://weather/map',
      name: 'weather/map',
      title: 'Map',
      mimeType: RESOURCE_MIME_TYPE,
      _meta: { build: 7, ui: DECLARED },
    });
    expect(McpUiResourceMetaSchema.parse(listed._meta!['ui'])).toEqual(DECLARED);
    const read = async (uri: string) => (await client.readResource({ uri })).contents[0];
    expect(await read('ui://weather/map')).toEqual({
      uri: 'ui://weather/map',
      mimeType: RESOURCE_MIME_TYPE,
      text: '<!doctype html><p>Map</p>',
      _meta: { ui: DECLARED },
    });
    expect(await read('ui://weather/own')).toMatchObject({ _meta: { ui: { prefersBorder: true } } });
    expect(await read('ui://weather/plain')).not.toHaveProperty('_meta');
    expect(await read('ui://city/Paris')).toMatchObject({ _meta: { ui: { prefersBorder: true } } });
  });

  it('the extension is declared by endpoints with views, and tools learn whether a host shows them', async () => {
    const app = await start();
    const call = async (extensions: object): Promise<unknown> => {
      const { result } = await new ModernClient(app.url).ask(
        'tools/call',
        { name: 'weather', arguments: {} },
        { capabilities: { extensions } },
      );
      return result.content[0].text;
    };
    expect(await call({ [EXTENSION_ID]: { mimeTypes: [RESOURCE_MIME_TYPE] } })).toBe('A view shows it.');
    expect(await call({})).toBe('It rains.');
    const { extensions } = (await connect(app)).getServerCapabilities()!;
    expect(extensions).toEqual({ [EXTENSION_ID]: {} });
    expect(getUiCapability({ extensions: extensions! })).toEqual({});
  });

  it('a guard hides tools of views from hosts without views', async () => {
    const { url } = await startBare({ providers: [ForViews] });
    for (const extensions of [{ [EXTENSION_ID]: { mimeTypes: [RESOURCE_MIME_TYPE] } }, {}]) {
      const client = new ModernClient(url);
      const { result } = await client.ask('tools/list', {}, { capabilities: { extensions } });
      expect(result.tools).toHaveLength(Object.keys(extensions).length);
    }
  });

  it('the extension is declared for views that are registered at the start, too', async () => {
    const client = await connect(await startBare({ providers: [LateView] }));
    expect(client.getServerCapabilities()?.extensions).toEqual({ [EXTENSION_ID]: {} });
    expect((await client.readResource({ uri: 'ui://late' })).contents[0]).toMatchObject({ text: '<p>late</p>' });
  });

  it('views may be registered at run time, in any order until the app listens', async () => {
    const app = await start({ providers: [LateView] });
    const client = await connect(app);
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain('late');
    registryOf(app).registerTool({ name: 'later', ui: { visibility: ['app'] }, handler: () => 'later' });
    expect(() => registryOf(app).registerTool({ name: 'x', ui: 'http://x', handler: () => 'x' })).toThrow('"http://x"');
  });
});

describe.each(ONE_ADAPTER)('the start of MCP Apps fails, on %s,', (adapter) => {
  const failureOf = async (provider: Type): Promise<string> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    const error = await startFailure(adapter, () => ({ imports, providers: [provider] }));
    expect(error.name).toBe('McpHandlerDefinitionError');
    return error.message;
  };
  const withTool = (options: Partial<ToolOptions>): Type => {
    class Broken {
      @Tool({ name: 'broken', ...options })
      broken(): string {
        return '';
      }
      @AppView({ uri: 'ui://there' })
      view(): string {
        return '';
      }
      @Resource({ uri: 'ui://document', name: 'document', mimeType: 'text/html' })
      document(): string {
        return '';
      }
    }
    return Broken;
  };

  it.each<[string, Partial<ToolOptions>, string]>([
    ['names a view that is not there', { ui: 'ui://absent' }, '"ui://absent", which does not exist'],
    [
      'names one by hand that is not there',
      { _meta: { ui: { resourceUri: 'ui://absent' } } },
      'Available: "ui://there".',
    ],
    ['names one in the old form that is not there', { _meta: { 'ui/resourceUri': 'ui://absent' } }, '"ui://absent"'],
    ['names a resource that is no view', { ui: 'ui://document' }, '"text/html". Declare it with @AppView()'],
    ['names no view', { ui: 'https://example.com' }, '"https://example.com"'],
    ['says it twice', { ui: 'ui://there', _meta: { ui: {} } }, '"_meta.ui"'],
    ['says no visibility', { ui: { visibility: [] } }, '"ui.visibility"'],
    ['says another visibility', { ui: { visibility: ['user' as 'app'] } }, '["user"]'],
    ['has a view with another option', { ui: { resourceURI: 'ui://there' } as object }, 'Did you mean "resourceUri"?'],
    ['has a view that is none', { ui: 5 as never }, 'got 5'],
  ])('the start of an app with MCP Apps fails for a tool that %s', async (_, options, says) => {
    expect(await failureOf(withTool(options))).toContain(says);
  });

  const withView = (options: object): Type => {
    class Broken {
      @AppView({ uri: 'ui://broken', ...options })
      view(): string {
        return '';
      }
    }
    return Broken;
  };

  it.each<[string, object, string]>([
    ['of another scheme', { uri: 'https://example.com' }, '"https://example.com"'],
    ['with an unknown directive', { csp: { scriptDomains: [] } }, '"csp.scriptDomains"'],
    ['with one origin instead of a list', { csp: { connectDomains: 'https://a.example' } }, '"csp.connectDomains"'],
    ['that smuggles a directive in', { csp: { connectDomains: ['https://a.example; script-src *'] } }, 'semicolons'],
    ['that smuggles a keyword in', { csp: { resourceDomains: ["'unsafe-eval'"] } }, 'quotes'],
    ['with an unknown permission', { permissions: { usb: {} } }, '"permissions.usb"'],
    ['with a permission that is no object', { permissions: { camera: true } }, '"permissions.camera"'],
    ['with an empty domain', { domain: '' }, '"domain"'],
    ['with a border that is no choice', { prefersBorder: 'yes' }, '"prefersBorder"'],
  ])('the start of an app with MCP Apps fails for a view %s', async (_, options, says) => {
    expect(await failureOf(withView(options))).toContain(says);
  });

  it('the start of an app with MCP Apps fails for an option that a view does not have', () => {
    expect(() => withView({ mimeType: 'text/html' })).toThrow('no option "mimeType"');
  });
});
