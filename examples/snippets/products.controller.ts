// #region tools
import { Body, Controller, Get, Param, ParseIntPipe, Patch } from '@nestjs/common';
import { IsInt, IsOptional, IsString } from 'class-validator';
import { Tool, Tools } from 'nestjs-mcp-streamable';

class UpdateProductDto {
  @IsInt() price!: number;
  @IsOptional() @IsString() note?: string;
}

@Controller('products')
@Tools() // makes products_find, and products_update with id, price and note
export class ProductsController {
  @Get(':id')
  @Tool({ title: 'Find a product', description: 'Finds a product by its number' })
  find(@Param('id', ParseIntPipe) id: number): object {
    return { id, price: 30 };
  }

  @Patch(':id')
  @Tool({
    title: 'Change a product',
    description: 'Sets the price of a product, and the note on it',
    annotations: { destructiveHint: true },
  })
  update(
    @Param('id', ParseIntPipe) id: number,
    @Body() changes: UpdateProductDto,
  ): object {
    return { id, price: changes.price, note: changes.note };
  }
}
// #endregion
