import type { Provider } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ENDPOINT_NAME, type EndpointName } from './core/calls/endpoint-name.js';
import { MCP_DEV_STORES } from './core/calls/replaceable-part.js';
import { McpClock } from './core/common/clock.js';
import { MCP_OPTIONS } from './core/common/options.js';
import { hasMarked } from './core/handlers/decorators/handler.decorators.js';
import type { McpPlugin } from './core/plugins/mcp-plugin.js';
import { Offer } from './core/plugins/offer.js';
import { SCOPES_DECORATOR, type ScopesDecorator } from './core/plugins/scopes.js';
import { FEATURES } from './core/plugins/plugin-host.js';
import type { ResolvedEndpointOptions } from './mcp-streamable.options.js';

/** What is known of an endpoint when its features are chosen. */
interface Endpoint {
  readonly options: ResolvedEndpointOptions;
  readonly serves: Offer['serves'];
}

/** A feature of the package, whose module is imported where an endpoint uses it. */
interface Feature {
  readonly name: string;
  when(endpoint: Endpoint): boolean;
  load(endpoint: Endpoint): Promise<McpPlugin | readonly McpPlugin[]>;
}

// `McpRegistry` registers handlers at any time, and synchronously: what acts on them must be there before.
const forHandlers = ({ serves }: Endpoint): boolean => serves === 'handlers';

/**
 * # The features of the package
 *
 * Each row is a feature with a folder of its own. Its plugins find all that they need by the endpoint that they are attached to. Two
 * plugins of one ring stay in the order of the rows, the first outermost.
 */
const FEATURE_LIST: readonly Feature[] = [
  {
    name: 'instrumentation',
    when: ({ options }) => options.instrumentation.length > 0,
    load: async ({ options }) => {
      const { InstrumentationPlugin } = await import('./instrumentation.plugin.js');
      return options.instrumentation.map((each) => new InstrumentationPlugin(each));
    },
  },
  {
    name: 'switches',
    when: forHandlers,
    load: async () => new (await import('./switches/endpoint-switches.js')).SwitchesPlugin(),
  },
  {
    name: 'effects',
    when: forHandlers,
    load: async () => (await import('./effects/effects.plugins.js')).effectsPlugins(),
  },
  {
    name: 'limits',
    when: forHandlers,
    load: async () => new (await import('./limits/limits.plugin.js')).LimitsPlugin(),
  },
  {
    name: 'doctor',
    when: forHandlers,
    // The live page may ask for an examination, with the option and without it.
    load: async ({ options }) =>
      options.doctor
        ? new (await import('./doctor/endpoint-doctor.js')).DoctorPlugin()
        : new (await import('./doctor/asked-doctor.js')).AskedDoctorPlugin(),
  },
  {
    name: 'auth',
    when: ({ options }) => options.auth !== undefined,
    load: async () => new (await import('./auth/auth.plugin.js')).AuthPlugin(),
  },
  {
    name: 'card',
    when: ({ options }) => options.serverCard !== false,
    load: async () => new (await import('./card/card.plugin.js')).CardPlugin(),
  },
  {
    name: 'catalogue',
    when: (endpoint) => forHandlers(endpoint) && hasMarked('catalogue'),
    load: async () => new (await import('./catalogue/catalogues.plugin.js')).CataloguesPlugin(),
  },
];

/** Provides the plugins of the features that an endpoint uses. */
export const featuresProvider: Provider = {
  provide: FEATURES,
  useFactory: async (options: ResolvedEndpointOptions, { serves }: Offer): Promise<readonly McpPlugin[]> => {
    const endpoint = { options, serves };
    const used = FEATURE_LIST.filter((feature) => feature.when(endpoint));
    return (await Promise.all(used.map((feature) => feature.load(endpoint)))).flat();
  },
  inject: [MCP_OPTIONS, Offer],
};

/** Provides the guards of scopes that are data, as those of tools in a catalogue. */
export const scopesProviders: Provider[] = [
  {
    provide: SCOPES_DECORATOR,
    useFactory: async (): Promise<ScopesDecorator | undefined> =>
      hasMarked('catalogue') ? (await import('./auth/require-scopes.js')).requireScopesOf : undefined,
  },
];

/** What is known of an endpoint when its stores are made. */
interface StoredEndpoint extends Endpoint {
  readonly endpoint: EndpointName;
  readonly clock: McpClock;
  /** Whether it is served over HTTP: without it there is one client, which starts its server itself. */
  readonly isHttp: boolean;
}

/** A feature that replaces the stores in memory by others. */
interface StoreFeature {
  readonly name: string;
  when(endpoint: StoredEndpoint): boolean;
  load(endpoint: StoredEndpoint): Promise<object | undefined>;
}

const STORE_FEATURES: readonly StoreFeature[] = [
  {
    name: 'dev',
    when: ({ options, isHttp }) => options.devSessions && options.sessions !== 'off' && isInMemory(options) && isHttp,
    load: async (endpoint) => (await import('./dev/dev-stores.js')).openDevStores(endpoint),
  },
];

const isInMemory = ({ backend, sessionStore, eventStore }: ResolvedEndpointOptions): boolean =>
  !backend && !sessionStore && !eventStore;

/** Provides the stores that outlive this process; `undefined`: none do. */
export const keptStoresProvider: Provider = {
  provide: MCP_DEV_STORES,
  useFactory: (
    options: ResolvedEndpointOptions,
    { serves }: Offer,
    endpoint: EndpointName,
    clock: McpClock,
    { httpAdapter }: HttpAdapterHost,
  ): Promise<object | undefined> | undefined => {
    const stored = { options, serves, endpoint, clock, isHttp: Boolean(httpAdapter) };
    return STORE_FEATURES.find((feature) => feature.when(stored))?.load(stored);
  },
  inject: [MCP_OPTIONS, Offer, ENDPOINT_NAME, McpClock, HttpAdapterHost],
};
