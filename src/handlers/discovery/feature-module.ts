import { type DynamicModule, Module, type Type } from '@nestjs/common';
import { FeatureMark } from './app-scan.js';
import { HandlerDefinitionError } from '../handlers.errors.js';

/** What `forFeature()` makes: nothing but a mark, which endpoints find. */
@Module({})
class McpFeatureModule {}

/** @throws HandlerDefinitionError for what is no class */
export function featureModule(providers: readonly Type[], name: string | undefined): DynamicModule {
  // Also catches the `undefined` that circular imports leave behind.
  const classes = Array.isArray(providers) && providers.every((provider) => typeof provider === 'function');
  if (!classes) {
    throw new HandlerDefinitionError(
      'forFeature()',
      'it takes an array of provider classes, and one of them is none. An import in a circle leaves undefined behind.',
    );
  }
  const mark = new FeatureMark(providers, name);
  return { module: McpFeatureModule, providers: [{ provide: Symbol('mcp feature'), useValue: mark }] };
}
