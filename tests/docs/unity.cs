// What docs/guides/elsewhere.md needs of UnityEngine, and a program that writes what its code gives to the texture.
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text.RegularExpressions;
using UnityEngine;

namespace UnityEngine
{
    public enum TextureFormat { RHalf, RFloat }
    public enum FilterMode { Point, Bilinear }
    public enum TextureWrapMode { Repeat, Clamp }

    public struct Vector3
    {
        public float x, y, z;

        public Vector3(float x, float y, float z)
        {
            this.x = x;
            this.y = y;
            this.z = z;
        }
    }

    public static class JsonUtility // fields of strings and lists of numbers
    {
        public static T FromJson<T>(string text) where T : new()
        {
            var made = new T();
            foreach (var field in typeof(T).GetFields())
            {
                string value = Regex.Match(text, "\"" + field.Name + "\": (\\[[^\\]]*\\]|\"[^\"]*\")").Groups[1].Value;
                IEnumerable<string> words = value.Trim('[', ']').Split(',');
                if (field.FieldType == typeof(string)) field.SetValue(made, value.Trim('"'));
                else if (field.FieldType == typeof(int[])) field.SetValue(made, words.Select(int.Parse).ToArray());
                else
                {
                    var numbers = words.Select(word => float.Parse(word, CultureInfo.InvariantCulture));
                    field.SetValue(made, numbers.ToArray());
                }
            }
            return made;
        }
    }

    public class Texture3D
    {
        public readonly int width, height, depth;
        public readonly TextureFormat format;
        public FilterMode filterMode;
        public TextureWrapMode wrapMode;
        public byte[] given, applied;

        public Texture3D(int width, int height, int depth, TextureFormat format, bool mipChain)
        {
            this.width = width;
            this.height = height;
            this.depth = depth;
            this.format = format;
            if (mipChain) throw new ArgumentException("the file has one level");
        }

        public void SetPixelData<T>(T[] data, int mipLevel)
        {
            given = (byte[])(object)data;
        }

        public void Apply(bool updateMipmaps, bool makeNoLongerReadable)
        {
            applied = given;
        }
    }
}

static class Program
{
    static void Main(string[] names)
    {
        Vector3 origin;
        float spacing;
        var texture = FieldTexture.Load(names[0], out origin, out spacing);
        File.WriteAllBytes(names[1], texture.applied);
        var facts = new object[] {
            texture.width, texture.height, texture.depth, texture.format, texture.filterMode, texture.wrapMode,
            origin.x.ToString("r"), origin.y.ToString("r"), origin.z.ToString("r"), spacing.ToString("r") };
        Console.WriteLine(string.Join(" ", facts));
    }
}
